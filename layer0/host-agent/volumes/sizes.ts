/** How much is in this host's volumes? Every file has to be looked at, so nobody does before somebody asks. */
import { pause } from '@flynn/kit/clock';
import { hasCode, messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { KeyedMutex } from '@flynn/kit/queue';
import type { Engine } from '../engine/engine.ts';

/** Who asks gets what is known by then; what is measured goes on, for who asks again. */
const patienceMs = 3_000;
const freshMs = 60_000;

type Size = { bytes: number; atMs: number };

/** INVARIANTS. One volume is measured at a time, and none twice at once, however many ask. */
export class VolumeSizes {
  readonly #engine: Pick<Engine, 'volumeBytes'>;
  readonly #signal: AbortSignal;
  readonly #log: Logger;
  readonly #patienceMs: number;
  readonly #turns = new KeyedMutex();
  readonly #sizes = new Map<string, Size>();
  readonly #underWay = new Map<string, Promise<void>>();

  /** Measuring ends with the signal, not with who asked. */
  constructor(options: { engine: Pick<Engine, 'volumeBytes'>; signal: AbortSignal; log: Logger; patienceMs?: number }) {
    this.#engine = options.engine;
    this.#signal = options.signal;
    this.#log = options.log;
    this.#patienceMs = options.patienceMs ?? patienceMs;
  }

  /**
   * Of all volumes there are, by the engine's names: bytes, not older than a minute where that could be measured within three
   * seconds. Absent is what is measured for the first time and takes longer, or cannot be seen from here.
   */
  async of(names: readonly string[], { signal }: { signal: AbortSignal }): Promise<ReadonlyMap<string, number>> {
    for (const name of this.#sizes.keys()) if (!names.includes(name)) this.#sizes.delete(name);
    const measured = Promise.all(names.map((name) => this.#refresh(name)));
    const patience = new AbortController();
    await Promise.race([measured, pause(this.#patienceMs, AbortSignal.any([signal, patience.signal]))]);
    patience.abort();
    signal.throwIfAborted();
    return new Map(
      names.flatMap((name) => {
        const size = this.#sizes.get(name);
        return size === undefined ? [] : [[name, size.bytes]];
      }),
    );
  }

  #refresh(name: string): Promise<void> {
    const known = this.#sizes.get(name);
    if (known !== undefined && performance.now() - known.atMs < freshMs) return Promise.resolve();
    const before = this.#underWay.get(name);
    if (before !== undefined) return before;
    const measuring = this.#turns.run('', () => this.#measure(name)).finally(() => this.#underWay.delete(name));
    this.#underWay.set(name, measuring);
    return measuring;
  }

  async #measure(name: string): Promise<void> {
    try {
      const bytes = await this.#engine.volumeBytes(name, { signal: this.#signal });
      if (bytes !== undefined) this.#sizes.set(name, { bytes, atMs: performance.now() });
    } catch (error) {
      if (this.#signal.aborted || hasCode(error, 'not_found')) return;
      this.#log.warn({ volume: name }, `could not measure what is in it: ${messageOf(error)}`);
    }
  }
}
