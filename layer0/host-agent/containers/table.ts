/** The containers of this host as last heard from the engine. */
import { pause, systemClock } from '@flynn/kit/clock';
import { hasCode, messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import type { Container, Engine } from '../engine/engine.ts';
import { residentOf } from '../engine/labels.ts';
import { jobIdOf } from '../jobs/plan.ts';

/** Events can be lost with their connection; the list is the truth. */
const resyncMs = 30_000;
const fullResyncEvery = 10;
const retryMs = 1_000;

/**
 * INVARIANTS. A container that ended never runs again in here unless it was started later. While the engine is away the
 * table keeps what it knew, and `isCurrent` is false: nothing may be concluded from it.
 */
export class ContainerTable {
  readonly #engine: Engine;
  readonly #log: Logger;
  readonly #containers = new Map<string, Container>();
  readonly #listeners = new Set<() => void>();
  readonly #outOfMemoryListeners = new Set<(container: Container) => void>();
  #isCurrent = false;
  #losses = 0;
  #connections = 0;

  constructor(options: { engine: Engine; log: Logger }) {
    this.#engine = options.engine;
    this.#log = options.log;
  }

  /** Whether the engine answers and the table follows it. */
  get isCurrent(): boolean {
    return this.#isCurrent;
  }

  /** How often the engine was lost, or could not be reached. */
  get losses(): number {
    return this.#losses;
  }

  /** How often the engine was found: at first, and after each time without it. Listeners are told. */
  get connections(): number {
    return this.#connections;
  }

  all(): Container[] {
    return [...this.#containers.values()];
  }

  /** Those of jobs that were assigned; resident ones are their own affair. */
  assigned(): Container[] {
    return this.all().filter(({ labels }) => residentOf(labels) === undefined);
  }

  ofJob(jobId: string): Container | undefined {
    return this.all().find((container) => jobIdOf(container) === jobId);
  }

  /** Called after every change. Returns the unsubscribe function. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  onOutOfMemory(listener: (container: Container) => void): () => void {
    this.#outOfMemoryListeners.add(listener);
    return () => void this.#outOfMemoryListeners.delete(listener);
  }

  put(container: Container): void {
    const known = this.#containers.get(container.id);
    if (known !== undefined && isOlder(container, known)) return;
    this.#containers.set(container.id, container);
    this.#tell();
  }

  delete(containerId: string): void {
    if (this.#containers.delete(containerId)) this.#tell();
  }

  /** Resolves when the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        await this.#follow(signal);
      } catch (error) {
        if (signal.aborted) return;
        this.#isCurrent = false;
        this.#losses += 1;
        this.#log.warn(`lost the container engine, trying again every second: ${messageOf(error)}`);
      }
      await pause(retryMs, signal);
    }
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const ending = new AbortController();
    const until = AbortSignal.any([signal, ending.signal]);
    const resync = this.#resync(until);
    try {
      await Promise.race([this.#readEvents(until), resync]);
    } finally {
      ending.abort();
      this.#isCurrent = false;
      // Why it failed was thrown by the race, or is that it was ended here.
      await resync.catch(() => undefined);
    }
  }

  async #resync(signal: AbortSignal): Promise<void> {
    for (let round = 0; !signal.aborted; round += 1) {
      // Now and then all of it; else only where something seems to have been missed.
      if (round % fullResyncEvery === 0 || !(await this.#isAsListed(signal))) await this.refresh(signal);
      if (!this.#isCurrent) {
        this.#connections += 1;
        this.#log.info({ containers: this.#containers.size }, 'connected to the container engine');
      }
      this.#isCurrent = true;
      this.#tell();
      await pause(resyncMs, signal);
    }
  }

  async #isAsListed(signal: AbortSignal): Promise<boolean> {
    const states = await this.#engine.states({ signal });
    const isClear = ({ id, state, isUnclear = false }: Container) => !isUnclear && states.get(id) === state;
    return states.size === this.#containers.size && this.all().every(isClear);
  }

  async refresh(signal?: AbortSignal): Promise<void> {
    const before = new Set(this.#containers.keys());
    const listed = await this.#engine.list(signal === undefined ? {} : { signal });
    const ids = new Set(listed.map((container) => container.id));
    for (const container of listed) {
      this.put(container);
      if (container.isUnclear !== true) continue;
      this.#log.warn(
        `the engine cannot tell of the container ${container.name} (${container.error}): if that stays so, restart the engine, or remove the container with docker rm -f`,
      );
    }
    // Only what was known before the list was made can be missing from it.
    for (const id of before) if (!ids.has(id)) this.delete(id);
  }

  async #readEvents(signal: AbortSignal): Promise<void> {
    for await (const event of this.#engine.events({ signal })) {
      if (event.type === 'removed') this.delete(event.containerId);
      // Who started it knows what it is now, and a look at each would be felt when many start.
      else if (event.type !== 'started') void this.#look(event.containerId, event.type === 'out_of_memory', signal);
    }
  }

  async #look(containerId: string, isOutOfMemory: boolean, signal: AbortSignal): Promise<void> {
    try {
      const container = await this.#engine.inspect(containerId, { signal });
      if (isOutOfMemory) for (const listener of this.#outOfMemoryListeners) listener(container);
      this.put(container);
    } catch (error) {
      if (signal.aborted) return;
      if (hasCode(error, 'not_found')) this.delete(containerId);
      // The next resync makes up for it.
      else this.#log.warn({ err: error, containerId }, 'could not look at a container');
    }
  }

  #tell(): void {
    for (const listener of this.#listeners) listener();
  }
}

/** Answers can overtake each other: an end is never undone by a look from before it. */
function isOlder(container: Container, known: Container): boolean {
  const started = container.startedAtMs ?? 0;
  const knownStarted = known.startedAtMs ?? 0;
  // A start that is yet to come was told by a clock that was set back since: it says nothing about what is older.
  if (started !== knownStarted) return started < knownStarted && knownStarted <= systemClock.now();
  return known.state === 'exited' && container.state !== 'exited';
}
