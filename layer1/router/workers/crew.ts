/** Who carries a router's traffic: at rest its own process, and from when that has much to do on workers in its place. */
import { FlynnError, messageOf } from '@flynn/kit/errors';
import type { Voice } from '../server.ts';
import { Workers } from './workers.ts';
import type { WorkersOptions } from './workers.ts';
import type { Answers } from './worker.ts';

/** For a worker to stop after its last connection was cut. */
const marginMs = 1_500;

/** Of one that leaves with the router going on: nobody waits for it, and what rests ends by itself after 75 s. */
export const leaving = { drainMs: Infinity, restMs: 80_000 };

/** The part of a worker, in the router's own process. */
export type Own = {
  voice: Voice;
  answers: Answers;
  /** As a router's: takes no more connections, and resolves with all it has counted once the last has ended. */
  stop(options: { drainMs: number; restMs?: number }): Promise<unknown>;
};

export type CrewOptions = Omit<WorkersOptions, 'signal'> & { startOwn: () => Promise<Own> };

/**
 * INVARIANTS. Somebody takes connections at any time: the own process goes on until workers do, and what it has by then goes on
 * there until it ends. From then on it only supervises, however few workers there are; the next router begins anew. What each has
 * counted is either asked for or was handed to `onLast`, never both.
 */
export class Crew {
  readonly #options: CrewOptions;
  readonly #stopping = new AbortController();
  #own: Own | undefined;
  #workers: Workers | undefined;
  #becoming: Promise<unknown> = Promise.resolve();

  /** With as many as are to be there to begin with; resolves when all serve. */
  static async start(options: CrewOptions): Promise<Crew> {
    const crew = new Crew(options);
    if (options.count === 1) crew.#own = await options.startOwn();
    else crew.#workers = await Workers.start(options);
    return crew;
  }

  private constructor(options: CrewOptions) {
    this.#options = options;
  }

  /** How many are to take connections. */
  get count(): number {
    return this.#workers?.count ?? 1;
  }

  /** Of those that take connections. */
  get takingPids(): number[] {
    return this.#workers?.takingPids ?? [process.pid];
  }

  /** So many answer what is asked now, if all do. */
  get speakers(): number {
    return (this.#own === undefined ? 0 : 1) + (this.#workers?.pids.length ?? 0);
  }

  /** Of the own process while there never was anybody else: it says all there is to say. */
  get alone(): Voice | undefined {
    return this.#workers === undefined ? this.#own?.voice : undefined;
  }

  /** Asks all that serve; who cannot answer is left out. */
  async ask(question: string, input: unknown = null, options?: { timeoutMs: number }): Promise<unknown[]> {
    const [own, others] = await Promise.all([
      this.#askOwn(question, input),
      this.#workers?.ask(question, input, options) ?? [],
    ]);
    return [...own, ...others];
  }

  async #askOwn(question: string, input: unknown): Promise<unknown[]> {
    const answer = this.#own?.answers[question];
    if (answer === undefined) return [];
    try {
      return [await answer(input)];
    } catch (error) {
      this.#options.log.warn({ question, reason: messageOf(error) }, 'the own process did not answer');
      return [];
    }
  }

  /** Resolves when one more takes connections; rejects, with as many as before, if it does not come to that. */
  async grow(): Promise<void> {
    if (this.#workers !== undefined) return this.#workers.grow();
    const becoming = this.#becomeParent();
    this.#becoming = becoming;
    await becoming;
  }

  /** One worker in its place, and one more: if it does not come to the first all is as before, if not to the second as many. */
  async #becomeParent(): Promise<void> {
    const { signal } = this.#stopping;
    const workers = await Workers.start({ ...this.#options, count: 1, signal });
    this.#workers = workers;
    try {
      signal.throwIfAborted();
      await workers.grow();
    } finally {
      // Told to stop meanwhile it has a nearer end.
      if (!signal.aborted) void this.#leave();
    }
  }

  async #leave(): Promise<void> {
    const { log, onLast } = this.#options;
    try {
      const counted = await this.#own?.stop(leaving);
      // In one go: asked of it no more, and counted among what was.
      this.#own = undefined;
      onLast?.(counted);
      log.info('workers have all of the traffic now');
    } catch (error) {
      this.#own = undefined;
      log.error({ err: error }, 'what this process carried could not be ended as it should');
    }
  }

  /** One less: see `Workers`. There is always one. */
  async shrink(): Promise<'left' | 'busy'> {
    if (this.#workers === undefined) throw new FlynnError('invalid', 'the only process of a router does not leave');
    return this.#workers.shrink();
  }

  /** Takes no more connections, answers what is under way, cuts what is left after `drainMs`. */
  async stop({ drainMs }: { drainMs: number }): Promise<void> {
    this.#stopping.abort(new FlynnError('cancelled', 'the router is being stopped'));
    const stopWorkers = async () => {
      // One that is only being started ends, or is one of them by then.
      if (this.#workers === undefined) await Promise.allSettled([this.#becoming]);
      await this.#workers?.stop({ deadlineMs: drainMs + marginMs });
    };
    await Promise.all([this.#own?.stop({ drainMs }), stopWorkers()]);
  }
}
