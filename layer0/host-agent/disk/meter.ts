/** What containers have on the disk, measured in turn and seldom; and which of them have more there than they may. */
import { pause } from '@flynn/kit/clock';
import { hasCode, messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { defaultTempDiskBytes } from '@flynn/scheduler/job-template';
import type { JobTemplate } from '@flynn/scheduler/job-template';
import type { ContainerTable } from '../containers/table.ts';
import type { Container, DiskUse, Engine } from '../engine/engine.ts';
import { type Excess, excessOf } from './excess.ts';
import { label, ownLabel, residentOf } from '../engine/labels.ts';
import type { DiskRoom } from './use.ts';

/** Of containers with a limit of their own, and of the others, as long as the disk has room. */
const limitedEveryMs = 30_000;
const everyMs = 600_000;
/** From here on all are measured as often as those with a limit: who fills the disk has to be found before it is full. */
const shortPercent = 80;
const turns = 32;
const tickMs = 5_000;
/** Measuring may take this share of the time at most: a container with a million files is measured less often. */
const shareOfTime = 0.05;

export function diskLimitOf(container: Container): number | undefined {
  const text = ownLabel(container.labels, label.tempDisk);
  return text === undefined ? undefined : Number(text);
}

/** What a job may write that does not say: it fills no disk on its own. */
function defaultLimitOf({ labels }: Container, room: DiskRoom | undefined): number | undefined {
  if (room === undefined || labels[label.job] === undefined || residentOf(labels) !== undefined) return undefined;
  return Math.min(defaultTempDiskBytes, Math.floor(room.totalBytes / 4));
}

type LimitedTemplate = Pick<JobTemplate, 'tempDiskBytes'>;

/** `soonMs`: when it is measured next if the disk is short. */
type Measure = { use?: DiskUse; nextMs: number; soonMs: number };

/**
 * INVARIANTS. One container is measured at a time. Storage drivers with quotas are rare, so the limit holds with a delay: what
 * is written in between is kept from filling the disk by the watermarks of the cleaner only.
 */
export class DiskMeter {
  readonly #engine: Pick<Engine, 'diskUse'>;
  readonly #containers: Pick<ContainerTable, 'all' | 'isCurrent'>;
  readonly #onExceeded: (container: Container, excess: Excess) => void;
  readonly #room: (() => Promise<DiskRoom>) | undefined;
  readonly #templateOf: (container: Container) => LimitedTemplate | undefined;
  readonly #log: Logger;
  #turn = 0;
  readonly #measures = new Map<string, Measure>();

  constructor(options: {
    engine: Pick<Engine, 'diskUse'>;
    containers: Pick<ContainerTable, 'all' | 'isCurrent'>;
    onExceeded: (container: Container, excess: Excess) => void;
    /** Without, only who has a limit of its own is held to one. */
    room?: () => Promise<DiskRoom>;
    /** Of its job, where that is known: a container of an earlier version may say what its image did. */
    templateOf?: (container: Container) => LimitedTemplate | undefined;
    log: Logger;
  }) {
    this.#engine = options.engine;
    this.#containers = options.containers;
    this.#onExceeded = options.onExceeded;
    this.#room = options.room;
    this.#templateOf = options.templateOf ?? (() => undefined);
    this.#log = options.log;
  }

  /** As last measured. */
  useOf(containerId: string): DiskUse | undefined {
    return this.#measures.get(containerId)?.use;
  }

  /** Resolves when the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.measure(signal);
      await pause(tickMs, signal);
    }
  }

  /** Measures what is due. */
  async measure(signal: AbortSignal): Promise<void> {
    if (!this.#containers.isCurrent) return;
    const running = this.#containers.all().filter(({ state }) => state === 'running');
    const ids = new Set(running.map(({ id }) => id));
    for (const id of this.#measures.keys()) if (!ids.has(id)) this.#measures.delete(id);
    const room = await this.#readRoom();
    const isShort = room !== undefined && room.usedPercent >= shortPercent;
    for (const container of running) {
      if (signal.aborted) return;
      this.#spread(container);
      const { nextMs, soonMs } = this.#measures.get(container.id) ?? { nextMs: 0, soonMs: 0 };
      if ((isShort ? Math.min(soonMs, nextMs) : nextMs) > performance.now()) continue;
      await this.#measureOne(container, room, signal);
    }
  }

  #ownLimitOf(container: Container): number | undefined {
    const template = this.#templateOf(container);
    return template === undefined ? diskLimitOf(container) : template.tempDiskBytes;
  }

  async #readRoom(): Promise<DiskRoom | undefined> {
    try {
      return await this.#room?.();
    } catch (error) {
      this.#log.warn(`could not see how much room the disk has: ${messageOf(error)}`);
      return undefined;
    }
  }

  /** Those without a limit take turns from the first on: every measure is a process, and forking the agent takes milliseconds. */
  #spread(container: Container): void {
    if (this.#ownLimitOf(container) !== undefined || this.#measures.has(container.id)) return;
    this.#turn = (this.#turn + 1) % turns;
    this.#measures.set(container.id, { nextMs: performance.now() + (everyMs * (this.#turn + 1)) / turns, soonMs: 0 });
  }

  async #measureOne(container: Container, room: DiskRoom | undefined, signal: AbortSignal): Promise<void> {
    const ownBytes = this.#ownLimitOf(container);
    const limitBytes = ownBytes ?? defaultLimitOf(container, room);
    const startedMs = performance.now();
    const note = (use: DiskUse | undefined): number => {
      const tookMs = performance.now() - startedMs;
      const endedMs = performance.now();
      const waitMs = Math.max(ownBytes === undefined ? everyMs : limitedEveryMs, tookMs / shareOfTime);
      const times = { nextMs: endedMs + waitMs, soonMs: endedMs + Math.max(limitedEveryMs, tookMs / shareOfTime) };
      this.#measures.set(container.id, { ...(use === undefined ? {} : { use }), ...times });
      return tookMs;
    };
    try {
      const use = await this.#engine.diskUse(container.id, { signal });
      const tookMs = note(use);
      const excess = limitBytes === undefined ? undefined : excessOf(use, limitBytes, room?.totalFiles);
      if (excess !== undefined) this.#onExceeded(container, excess);
      await pause(Math.min(tickMs, tookMs / shareOfTime), signal);
    } catch (error) {
      if (signal.aborted || hasCode(error, 'not_found')) return;
      note(this.useOf(container.id));
      this.#log.warn({ container: container.name }, `could not measure its files: ${messageOf(error)}`);
    }
  }
}
