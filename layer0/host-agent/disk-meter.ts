/** What containers have on the disk, measured in turn and seldom; and which of them have more there than they may. */
import { pause } from '@flynn/kit/clock';
import { hasCode, messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import type { ContainerTable } from './container-table.ts';
import type { Container, DiskUse, Engine } from './engine.ts';
import { label } from './labels.ts';

/** Of containers with a limit, and of the others. */
const limitedEveryMs = 30_000;
const everyMs = 600_000;
const turns = 32;
const tickMs = 5_000;
/** Measuring may take this share of the time at most: a container with a million files is measured less often. */
const shareOfTime = 0.05;

export function diskLimitOf(container: Container): number | undefined {
  const text = container.labels[label.tempDisk];
  return text === undefined ? undefined : Number(text);
}

type Measure = { use?: DiskUse; nextMs: number };

/**
 * INVARIANTS. One container is measured at a time. Storage drivers with quotas are rare, so the limit holds with a delay: what
 * is written in between is kept from filling the disk by the watermarks of the cleaner only.
 */
export class DiskMeter {
  readonly #engine: Pick<Engine, 'diskUse'>;
  readonly #containers: Pick<ContainerTable, 'all' | 'isCurrent'>;
  readonly #onExceeded: (container: Container, usedBytes: number, limitBytes: number) => void;
  readonly #log: Logger;
  #turn = 0;
  readonly #measures = new Map<string, Measure>();

  constructor(options: {
    engine: Pick<Engine, 'diskUse'>;
    containers: Pick<ContainerTable, 'all' | 'isCurrent'>;
    onExceeded: (container: Container, usedBytes: number, limitBytes: number) => void;
    log: Logger;
  }) {
    this.#engine = options.engine;
    this.#containers = options.containers;
    this.#onExceeded = options.onExceeded;
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
    for (const container of running) {
      if (signal.aborted) return;
      this.#spread(container);
      if ((this.#measures.get(container.id)?.nextMs ?? 0) > performance.now()) continue;
      await this.#measureOne(container, signal);
    }
  }

  /** Those without a limit take turns from the first on: every measure is a process, and forking the agent takes milliseconds. */
  #spread(container: Container): void {
    if (diskLimitOf(container) !== undefined || this.#measures.has(container.id)) return;
    this.#turn = (this.#turn + 1) % turns;
    this.#measures.set(container.id, { nextMs: performance.now() + (everyMs * (this.#turn + 1)) / turns });
  }

  async #measureOne(container: Container, signal: AbortSignal): Promise<void> {
    const limitBytes = diskLimitOf(container);
    const startedMs = performance.now();
    const note = (use: DiskUse | undefined): number => {
      const tookMs = performance.now() - startedMs;
      const waitMs = Math.max(limitBytes === undefined ? everyMs : limitedEveryMs, tookMs / shareOfTime);
      this.#measures.set(container.id, { ...(use === undefined ? {} : { use }), nextMs: performance.now() + waitMs });
      return tookMs;
    };
    try {
      const use = await this.#engine.diskUse(container.id, { signal });
      const tookMs = note(use);
      if (limitBytes !== undefined && use.writableBytes > limitBytes) {
        this.#onExceeded(container, use.writableBytes, limitBytes);
      }
      await pause(Math.min(tickMs, tookMs / shareOfTime), signal);
    } catch (error) {
      if (signal.aborted || hasCode(error, 'not_found')) return;
      note(this.useOf(container.id));
      this.#log.warn({ container: container.name }, `could not measure its files: ${messageOf(error)}`);
    }
  }
}
