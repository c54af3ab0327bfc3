/**
 * What somebody sees of the control plane who changes something every quarter of a second and never waits for the last
 * answer, at each door in turn: the longest time without a change that was answered, and the longest anybody waited.
 */
import { apps } from '@flynn/controller/api';
import { createControllerClient } from '@flynn/controller/client';
import { messageOf } from '@flynn/kit/errors';
import { TaskGroup } from '@flynn/kit/tasks';
import { askSteadily, longestGapMs } from './steady-asking.ts';

const everyMs = 250;
const patienceMs = 20_000;

export type WriteProbeOptions = Readonly<{
  /** Base URLs of ways to the controllers that nothing befalls. */
  doors: readonly string[];
  /** A token of an admin. */
  token: string;
  /** The controller's host name where the doors are a router's. */
  domain: string;
  /** Whose metadata is written. */
  app: string;
}>;

/** Of performance.now(). */
export type Write = Readonly<{ door: string; startedMs: number; endedMs: number; failure?: string }>;

export class WriteProbe implements AsyncDisposable {
  readonly #options: WriteProbeOptions;
  readonly #tasks = new TaskGroup();
  readonly #writes: Write[] = [];
  readonly #ending = new AbortController();

  constructor(options: WriteProbeOptions) {
    this.#options = options;
    this.#tasks.run('writes', () => this.#write());
  }

  /** Once all that is under way has ended, by the patience of the one who asks if by nothing else. In their order. */
  async stop(): Promise<readonly Write[]> {
    this.#ending.abort();
    await this.#tasks.done();
    return this.#writes.toSorted((a, b) => a.startedMs - b.startedMs);
  }

  async #write(): Promise<void> {
    const { doors, token, domain, app } = this.#options;
    const clients = doors.map((baseUrl) => ({
      door: baseUrl,
      client: createControllerClient({ baseUrl, key: token }),
    }));
    const ask = async (at: number): Promise<void> => {
      const one = clients[at % clients.length];
      if (one === undefined) return;
      const startedMs = performance.now();
      const body = { meta: { [`probe${at % 8}`]: String(at) } };
      const keep = (failure?: string): void => {
        const times = { door: one.door, startedMs, endedMs: performance.now() };
        this.#writes.push(failure === undefined ? times : { ...times, failure });
      };
      await one.client
        .call(apps.update, { params: { app }, body }, { headers: { host: domain }, timeoutMs: patienceMs })
        .then(
          () => keep(),
          (error: unknown) => keep(messageOf(error)),
        );
    };
    try {
      await askSteadily(ask, { everyMs, signal: this.#ending.signal });
    } finally {
      for (const { client } of clients) await client.close();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ending.abort();
    await this.#tasks.stop();
  }
}

/** The longest time in which no change was answered as done. */
export function outageMs(writes: readonly Write[]): number {
  return longestGapMs(writes.flatMap(({ endedMs, failure }) => (failure === undefined ? [endedMs] : [])));
}

/** The longest that anybody waited, to be served or told. */
export function longestMs(writes: readonly Write[]): number {
  return Math.max(0, ...writes.map(({ startedMs, endedMs }) => endedMs - startedMs));
}
