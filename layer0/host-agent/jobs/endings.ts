/**
 * Ends containers a few at a time. When many end at once Docker before 23.0 comes to a deadlock in its networks, and only a restart
 * helps (`engine/hang.ts`). It does so by processes that end, whoever ended them: a crowd of signals is as bad as one of calls.
 */
import { pause } from '@flynn/kit/clock';
import { Slots } from '@flynn/kit/slots';
import type { Engine } from '../engine/engine.ts';

/** `turnMs`: how long one that has not ended keeps others from their TERM. */
export type EndingLimits = Readonly<{ atOnce: number; turnMs: number }>;

/**
 * Most end within a moment of their TERM. Whoever takes longer ends by itself, at a time of its own: it is waited for by nobody.
 * Those that do not end before their KILL have that as far apart as they had their TERM.
 */
export const usualLimits: EndingLimits = { atOnce: 4, turnMs: 2_000 };

export class Endings {
  readonly #engine: Pick<Engine, 'stop'>;
  readonly #slots: Slots;
  readonly #turnMs: number;

  constructor(engine: Pick<Engine, 'stop'>, limits: EndingLimits = usualLimits) {
    this.#engine = engine;
    this.#slots = new Slots(limits.atOnce);
    this.#turnMs = limits.turnMs;
  }

  /** As the engine's own, once it is this one's turn. */
  async stop(id: string, { timeoutMs, signal }: { timeoutMs: number; signal: AbortSignal }): Promise<void> {
    const { ended } = await this.#slots.run(() => this.#begin(id, { timeoutMs, signal }), { signal });
    await ended;
  }

  /** Resolves when its turn is over. */
  async #begin(id: string, options: { timeoutMs: number; signal: AbortSignal }): Promise<{ ended: Promise<void> }> {
    const ended = this.#engine.stop(id, options);
    const over = new AbortController();
    const end = (): void => over.abort();
    void ended.then(end, end);
    await pause(this.#turnMs, AbortSignal.any([options.signal, over.signal]));
    return { ended };
  }
}
