/** What jobs and the host use, measured when somebody asks: nothing is spent while nobody does. */
import { readFileSync } from 'node:fs';
import { pause } from '@flynn/kit/clock';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { withDeadline } from '@flynn/kit/retry';
import type { HostUse, JobUse } from '../api.ts';
import type { ContainerTable } from '../containers/table.ts';
import type { DiskMeter } from '../disk/meter.ts';
import { diskOf } from '../disk/use.ts';
import type { Container, Engine, Usage } from '../engine/engine.ts';
import { residentOf } from '../engine/labels.ts';
import { jobIdOf } from '../jobs/plan.ts';

/** Shares of the processor are told for at least this long, and from a sample no older than that. */
const leastSpanMs = 200;
const longestSpanMs = 60_000;
/** Most is known without the engine; whoever asks for all of it waits no longer for the rest. */
const engineDeadlineMs = 3_000;

type Sample = { atMs: number; cpuNanoseconds: number; percent?: number };

export class Figures {
  readonly #engine: Pick<Engine, 'usage'>;
  readonly #containers: Pick<ContainerTable, 'all' | 'ofJob'>;
  readonly #meter: Pick<DiskMeter, 'useOf'>;
  readonly #diskPath: string;
  readonly #samples = new Map<string, Sample>();
  #hostSample = shareSince(undefined, readProcessors().busyNanoseconds);

  constructor(options: {
    engine: Pick<Engine, 'usage'>;
    containers: Pick<ContainerTable, 'all' | 'ofJob'>;
    meter: Pick<DiskMeter, 'useOf'>;
    /** Where the engine keeps its files. */
    diskPath: string;
  }) {
    this.#engine = options.engine;
    this.#containers = options.containers;
    this.#meter = options.meter;
    this.#diskPath = options.diskPath;
  }

  async ofJob(jobId: string, signal: AbortSignal): Promise<JobUse> {
    const container = this.#containers.ofJob(jobId);
    if (container?.state !== 'running') throw new FlynnError('conflict', `the job ${jobId} is not running`);
    const [use] = await this.#measure([container], signal);
    if (use === undefined) throw new FlynnError('conflict', `the job ${jobId} has just ended`);
    return use;
  }

  /** Of every job that runs, residents included; of those that only the engine could tell of nothing while it is away. */
  async ofJobs(signal: AbortSignal): Promise<JobUse[]> {
    const until = withDeadline(engineDeadlineMs, signal);
    const running = this.#containers.all().filter(({ state }) => state === 'running');
    const ids = new Set(running.map(({ id }) => id));
    for (const id of this.#samples.keys()) if (!ids.has(id)) this.#samples.delete(id);
    const lookAtOne = async (container: Container): Promise<Usage | undefined> => {
      try {
        return await this.#look(container, until);
      } catch (error) {
        if (signal.aborted || !hasCode(error, 'unavailable', 'timeout')) throw error;
        return undefined;
      }
    };
    return (await this.#measure(running, signal, lookAtOne)).toSorted((a, b) => (a.jobId < b.jobId ? -1 : 1));
  }

  async #measure(
    containers: readonly Container[],
    signal: AbortSignal,
    look = (container: Container) => this.#look(container, signal),
  ): Promise<JobUse[]> {
    // A share needs two looks; who asks regularly has the first already.
    const isNew = ({ id }: Container) => {
      const sample = this.#samples.get(id);
      return sample === undefined || performance.now() - sample.atMs > longestSpanMs;
    };
    const fresh = containers.filter(isNew);
    for (const container of fresh) {
      const usage = await look(container);
      if (usage !== undefined) {
        this.#samples.set(container.id, { atMs: performance.now(), cpuNanoseconds: usage.cpuNanoseconds });
      }
    }
    if (fresh.length > 0) await pause(leastSpanMs, signal);
    const uses: JobUse[] = [];
    for (const container of containers) {
      const usage = await look(container);
      if (usage !== undefined) uses.push(this.#useOf(container, usage));
    }
    return uses;
  }

  async #look(container: Container, signal: AbortSignal): Promise<Usage | undefined> {
    try {
      return await this.#engine.usage(container.id, { signal });
    } catch (error) {
      if (hasCode(error, 'not_found')) return undefined;
      throw error;
    }
  }

  #useOf(container: Container, usage: Usage): JobUse {
    const sample = shareSince(this.#samples.get(container.id), usage.cpuNanoseconds);
    this.#samples.set(container.id, sample);
    const disk = this.#meter.useOf(container.id);
    return {
      jobId: jobIdOf(container),
      isResident: residentOf(container.labels) !== undefined,
      cpuSeconds: usage.cpuNanoseconds / 1e9,
      cpuPercent: sample.percent ?? 0,
      memoryBytes: usage.memoryBytes,
      pids: usage.pids,
      ...(usage.network === undefined ? {} : { network: usage.network }),
      ...(disk === undefined ? {} : { disk }),
    };
  }

  async ofHost(): Promise<HostUse> {
    const memory = readFileSync('/proc/meminfo', 'utf8');
    const { busyNanoseconds, cores } = readProcessors();
    this.#hostSample = shareSince(this.#hostSample, busyNanoseconds);
    const memoryBytes = kilobytes(memory, 'MemTotal');
    return {
      cores,
      cpuPercent: this.#hostSample.percent ?? 0,
      load: Number(readFileSync('/proc/loadavg', 'utf8').split(' ')[0]),
      memoryBytes,
      memoryUsedBytes: memoryBytes - kilobytes(memory, 'MemAvailable'),
      disk: await diskOf(this.#diskPath),
    };
  }
}

/** A share that spans too little would be noise: then the last one stands. 100 is one core. */
function shareSince(before: Sample | undefined, cpuNanoseconds: number): Sample {
  const atMs = performance.now();
  if (before === undefined) return { atMs, cpuNanoseconds };
  const spanMs = atMs - before.atMs;
  if (spanMs < leastSpanMs && before.percent !== undefined) return before;
  const percent = Math.max(0, (cpuNanoseconds - before.cpuNanoseconds) / (spanMs * 1e4));
  return { atMs, cpuNanoseconds, percent };
}

/** The first line of /proc/stat, in hundredths of a second; what is idle or waits for the disk is not busy. */
export function readProcessors(): { busyNanoseconds: number; cores: number } {
  const lines = readFileSync('/proc/stat', 'utf8').split('\n');
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0, steal = 0] = (lines[0] ?? '')
    .split(/\s+/)
    .slice(1)
    .map(Number);
  const busyNanoseconds = (user + nice + system + irq + softirq + steal) * 1e7;
  return { busyNanoseconds, cores: lines.filter((line) => /^cpu\d/.test(line)).length };
}

function kilobytes(text: string, name: string): number {
  return Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(text)?.[1] ?? 0) * 1024;
}
