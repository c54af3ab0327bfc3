/** What containers on Docker use, read from the kernel where the engine need not be asked. */
import type { CallOptions, DiskUse, Usage } from '../engine/engine.ts';
import type { DockerContext } from './containers.ts';
import { engineCall } from './errors.ts';
import { readUsage } from '../usage/kernel-usage.ts';
import { z } from 'zod';
import { Shell, quoted } from '../shell.ts';

const diskDeadlineMs = 120_000;

const graphDriverSchema = z.object({ GraphDriver: z.object({ Data: z.record(z.string(), z.string()) }) });

type Paths = { upperDir: string | undefined; volumes: string[] };

/** Remembers what never changes: of a run its first process, of a container where its files are. */
export class DockerUsage {
  readonly #context: DockerContext;
  readonly #pids = new Map<string, number>();
  readonly #paths = new Map<string, Paths>();
  readonly #shell = new Shell();
  /** Their limits are nobody's here: measuring a large one may not hold up what containers are measured for. */
  readonly #volumeShell = new Shell();

  constructor(context: DockerContext) {
    this.#context = context;
  }

  async usage(id: string, options: CallOptions): Promise<Usage> {
    const known = this.#pids.get(id);
    if (known !== undefined) {
      const usage = readUsage(known, id);
      if (usage !== undefined) return usage;
    }
    const { State: state } = await this.#inspect(id, options);
    if (!state.Running) return { memoryBytes: 0, cpuNanoseconds: 0, pids: 0 };
    this.#pids.set(id, state.Pid);
    return readUsage(state.Pid, id) ?? this.#usageByEngine(id, options);
  }

  forget(id: string): void {
    this.#pids.delete(id);
    this.#paths.delete(id);
  }

  async diskUse(id: string, options: CallOptions): Promise<DiskUse> {
    const { upperDir, volumes } = await this.#pathsOf(id, options);
    const writable = upperDir === undefined ? undefined : await this.#bytesBelow([upperDir], options);
    return {
      writableBytes: writable ?? (await this.#writableByEngine(id, options)),
      volumeBytes: (await this.#bytesBelow(volumes, options)) ?? 0,
    };
  }

  async volumeBytes(name: string, options: CallOptions): Promise<number | undefined> {
    const { Mountpoint } = await engineCall(
      `looking at volume ${name}`,
      (abortSignal) => {
        const request = { abortSignal };
        return this.#context.docker.getVolume(name).inspect(request);
      },
      options,
    );
    return this.#bytesBelow([Mountpoint], options, this.#volumeShell);
  }

  async #pathsOf(id: string, options: CallOptions): Promise<Paths> {
    const known = this.#paths.get(id);
    if (known !== undefined) return known;
    const info = await this.#inspect(id, options);
    // Engines whose images are containerd's say nothing of it, or not where.
    const data = graphDriverSchema.safeParse(info).data?.GraphDriver.Data ?? {};
    const volumes = info.Mounts.filter(({ Type }) => Type === 'volume').map(({ Source }) => Source);
    const paths = { upperDir: data['UpperDir'], volumes };
    this.#paths.set(id, paths);
    return paths;
  }

  #inspect(id: string, options: CallOptions) {
    return engineCall(
      `looking at container ${id}`,
      (abortSignal) => this.#context.docker.getContainer(id).inspect({ abortSignal }),
      options,
    );
  }

  async #usageByEngine(id: string, options: CallOptions): Promise<Usage> {
    const stats = await engineCall(
      `measuring container ${id}`,
      (abortSignal) => {
        const request = { stream: false as const, 'one-shot': true, abortSignal };
        return this.#context.docker.getContainer(id).stats(request);
      },
      options,
    );
    return {
      memoryBytes: stats.memory_stats.usage ?? 0,
      cpuNanoseconds: stats.cpu_stats.cpu_usage.total_usage,
      pids: stats.pids_stats?.current ?? 0,
    };
  }

  /**
   * In the background's background. Files that vanish meanwhile are left out; undefined if a folder is not to be seen from
   * here.
   */
  async #bytesBelow(
    folders: readonly string[],
    { signal }: CallOptions,
    shell = this.#shell,
  ): Promise<number | undefined> {
    if (folders.length === 0) return undefined;
    // Its exit code tells of files that went while it looked; what it could add up it says all the same.
    const script = `nice -n 19 du -skx -- ${folders.map(quoted).join(' ')}; true`;
    const output = await shell.run(script, {
      deadlineMs: diskDeadlineMs,
      ...(signal === undefined ? {} : { signal }),
    });
    const lines = output.split('\n').filter((line) => /^\d+\t/.test(line));
    if (lines.length < folders.length) return undefined;
    return lines.reduce((sum, line) => sum + Number.parseInt(line, 10) * 1024, 0);
  }

  /** For storage drivers other than overlay2. */
  async #writableByEngine(id: string, options: CallOptions): Promise<number> {
    const info = await engineCall(
      `measuring the files of container ${id}`,
      (abortSignal) => {
        const request = { size: true, abortSignal };
        return this.#context.docker.getContainer(id).inspect(request);
      },
      { ...options, deadlineMs: diskDeadlineMs },
    );
    return 'SizeRw' in info && typeof info.SizeRw === 'number' ? info.SizeRw : 0;
  }
}
