/**
 * The variables of a process as somebody elsewhere changes them: those it was started with, and over them what a source
 * says. Knows neither where that comes from nor what is done with it, and writes nothing into the process.
 *
 * INVARIANTS. There is nothing to be had before the source has answered once. What the source gives no more is as it was at
 * the start. While the source cannot be asked the last values hold.
 */
import { hasCode } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { withDeadline } from '@flynn/kit/retry';
import { forever } from '@flynn/kit/tasks';

export type Env = Readonly<Record<string, string | undefined>>;
type Told = { version: string; env: Readonly<Record<string, string>> };

/** Answers at once if nothing or another version is known; else as soon as there is another, or the same after a while. */
export type EnvSource = (known: string | undefined, signal: AbortSignal) => Promise<Told>;

const freshMs = 10_000;

export class EnvWatch {
  readonly #original: Env;
  readonly #source: EnvSource;
  readonly #log: Logger;
  readonly #listeners = new Set<(env: Env) => void>();
  #version: string | undefined;
  #current: Env | undefined;

  constructor(options: { original: Env; source: EnvSource; log: Logger }) {
    this.#original = { ...options.original };
    this.#source = options.source;
    this.#log = options.log;
  }

  /** Waits for the first values; throws what the source throws. */
  async first(signal: AbortSignal): Promise<Env> {
    return this.#current ?? this.#ask(signal);
  }

  /** With all that was set before this call; while the source is away, the last that are known. */
  async fresh(signal: AbortSignal): Promise<Env> {
    try {
      return this.#take(await this.#source(undefined, withDeadline(freshMs, signal)));
    } catch (error) {
      if (this.#current === undefined || signal.aborted || !hasCode(error, 'unavailable', 'timeout')) throw error;
      return this.#current;
    }
  }

  /** Calls back with every change from now on; answers how to end that. */
  onChange(listener: (env: Env) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Until the signal aborts. */
  async follow(signal: AbortSignal): Promise<void> {
    const step = async (limited: AbortSignal): Promise<void> => void (await this.#ask(limited));
    await forever('following variables', step, { signal, log: this.#log });
  }

  async #ask(signal: AbortSignal): Promise<Env> {
    return this.#take(await this.#source(this.#version, signal));
  }

  #take({ version, env }: Told): Env {
    if (this.#current !== undefined && version === this.#version) return this.#current;
    const isFirst = this.#current === undefined;
    this.#version = version;
    this.#current = { ...this.#original, ...env };
    // What they hold is nobody's who reads logs.
    this.#log.info({ variables: Object.keys(env).toSorted() }, isFirst ? 'variables known' : 'variables changed');
    for (const listener of this.#listeners) listener(this.#current);
    return this.#current;
  }
}
