/**
 * What people do to the Express app while it is changed under them: short requests at a steady rate over connections that
 * are kept, requests of many seconds, and WebSockets that stay. Whatever is not answered as it should be is kept.
 */
import { Agent, request } from 'node:http';
import { systemClock } from '@flynn/kit/clock';
import { messageOf } from '@flynn/kit/errors';
import { raceAbort, withDeadline } from '@flynn/kit/retry';
import { TaskGroup } from '@flynn/kit/tasks';
import { WebSocket } from 'ws';

const tickMs = 10;
const graceMs = 20_000;
const sayEveryMs = 200;
/** The app says so of a connection that ends because it does. */
const goingAway = 1001;

export type MixedLoadOptions = Readonly<{
  /** Where a router listens, `address` or `address:port`, and the app's host name. */
  router: string;
  host: string;
  perSecond: number;
  slow: Readonly<{ lanes: number; ms: number }>;
  sockets: number;
}>;

export type MixedReport = { requests: number; slow: number; messages: number; reconnects: number; failures: string[] };

export class MixedLoad implements AsyncDisposable {
  readonly #options: MixedLoadOptions;
  readonly #agent = new Agent({ keepAlive: true, scheduling: 'fifo' });
  readonly #tasks = new TaskGroup();
  readonly #report: MixedReport = { requests: 0, slow: 0, messages: 0, reconnects: 0, failures: [] };
  #isEnding = false;

  constructor(options: MixedLoadOptions) {
    this.#options = options;
    const { slow, sockets } = options;
    this.#tasks.run('short requests', (signal) => this.#short(signal));
    for (let lane = 0; lane < slow.lanes; lane += 1) this.#tasks.run('long requests', () => this.#long());
    for (let lane = 0; lane < sockets; lane += 1) this.#tasks.run('WebSocket', (signal) => this.#talk(signal));
  }

  /** Once what is under way has its answers. */
  async stop(): Promise<MixedReport> {
    this.#isEnding = true;
    await this.#tasks.done();
    return this.#report;
  }

  /** As many as are due by now, whether or not those before were answered. */
  async #short(signal: AbortSignal): Promise<void> {
    const startedMs = performance.now();
    const running = new Set<Promise<void>>();
    for (let sent = 0; !this.#isEnding;) {
      const due = Math.floor(((performance.now() - startedMs) / 1_000) * this.#options.perSecond);
      for (; sent < due; sent += 1) {
        const one = this.#ask('/', graceMs).then((isRight) => {
          if (isRight) this.#report.requests += 1;
          running.delete(one);
        });
        running.add(one);
      }
      await systemClock.sleep(tickMs, { signal });
    }
    await Promise.all(running);
  }

  async #long(): Promise<void> {
    const { ms } = this.#options.slow;
    while (!this.#isEnding) if (await this.#ask(`/slow?ms=${ms}`, ms + graceMs)) this.#report.slow += 1;
  }

  /** Whether it was answered as it should be. */
  async #ask(path: string, timeoutMs: number): Promise<boolean> {
    const { router, host } = this.#options;
    const startedMs = performance.now();
    const answer = Promise.withResolvers<string | undefined>();
    const asking = request(`http://${router}${path}`, { agent: this.#agent, headers: { host }, timeout: timeoutMs });
    asking.on('response', (incoming) => {
      incoming.resume();
      incoming.on('error', answer.reject);
      incoming.on('end', () => {
        const { statusCode = 0, headers } = incoming;
        answer.resolve(statusCode === 200 ? undefined : `${statusCode} ${String(headers['x-flynn-error'])}`);
      });
    });
    asking.on('timeout', () => asking.destroy(new Error('no answer')));
    asking.on('error', answer.reject);
    asking.end();
    const problem = await answer.promise.catch(messageOf);
    if (problem === undefined) return true;
    this.#report.failures.push(`${path}: ${problem} after ${Math.round(performance.now() - startedMs)} ms`);
    return false;
  }

  /** Where the app goes away somebody else takes the next connection. */
  async #talk(signal: AbortSignal): Promise<void> {
    while (!this.#isEnding) {
      const socket = new WebSocket(`ws://${this.#options.router}/ws`, { headers: { host: this.#options.host } });
      try {
        const end = await this.#converse(socket, signal);
        if (end === goingAway) this.#report.reconnects += 1;
        else if (end !== undefined) this.#report.failures.push(`WebSocket: closed with ${end}`);
      } catch (error) {
        this.#report.failures.push(`WebSocket: ${messageOf(error)}`);
      } finally {
        socket.terminate();
      }
    }
  }

  /** Says something and waits for its echo, again and again. The code with which the other side closed, if it did. */
  async #converse(socket: WebSocket, signal: AbortSignal): Promise<number | undefined> {
    const closed = Promise.withResolvers<number>();
    socket.on('close', closed.resolve);
    socket.on('error', closed.reject);
    closed.promise.catch(() => {
      // Whoever waits for the next message is told.
    });
    const heard = async (): Promise<number | undefined> => {
      const next = Promise.withResolvers<undefined>();
      socket.once('message', () => next.resolve(undefined));
      return raceAbort(Promise.race([next.promise, closed.promise]), withDeadline(graceMs, signal));
    };
    // The app begins.
    let end = await heard();
    while (end === undefined && !this.#isEnding) {
      socket.send('echo');
      end = await heard();
      if (end === undefined) this.#report.messages += 1;
      await systemClock.sleep(sayEveryMs, { signal });
    }
    // It may have closed while nothing was said.
    return end ?? (socket.readyState === WebSocket.OPEN ? undefined : await closed.promise);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#tasks.stop();
    this.#agent.destroy();
  }
}
