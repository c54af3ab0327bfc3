/** Batches of ndjson to an http address. */
import { once } from 'node:events';
import { Agent as HttpAgent, IncomingMessage, request as httpRequest } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import type { Outside } from '@flynn/kit/outside';
import type { NamedLine, Refused, Transport } from './drain-transport.ts';
import { hostOf } from './drain-url.ts';
import type { Target } from './drain-url.ts';

const requestMs = 30_000;
/** What these answers say of a request is true of the same request later. */
const refusedForGood: ReadonlySet<number> = new Set([400, 415, 422]);
/** This one of how much it is at once. */
const tooLarge = 413;

export type Trust = Readonly<{ ca: string | undefined; outside: Outside | undefined }>;

export class HttpTarget implements Transport {
  readonly doubtMs = 0;
  readonly isBroken = false;
  readonly #target: Extract<Target, { kind: 'http' }>;
  readonly #agent: HttpAgent;
  readonly #outside: Outside | undefined;
  /** What a body may be larger than if it is one line alone: less than what was too large before. */
  #limitBytes = Infinity;

  constructor(target: Extract<Target, { kind: 'http' }>, { ca, outside }: Trust) {
    this.#target = target;
    this.#outside = outside;
    const options = { keepAlive: true, maxSockets: 1, ...(outside && { lookup: outside.lookup }) };
    const trust = ca === undefined ? {} : { ca };
    this.#agent = target.url.startsWith('https:') ? new HttpsAgent({ ...options, ...trust }) : new HttpAgent(options);
  }

  async send(lines: readonly NamedLine[], signal: AbortSignal): Promise<Refused | undefined> {
    const waiting = lines.map(({ app, appName, line }) => `${JSON.stringify({ appId: app, app: appName, ...line })}\n`);
    let refused: Refused | undefined;
    while (waiting.length > 0) {
      const count = fitting(waiting, this.#limitBytes);
      const body = waiting.slice(0, count).join('');
      const status = await this.#answer(body, signal);
      if (status === tooLarge && count > 1) {
        this.#limitBytes = Math.floor(Buffer.byteLength(body) / 2);
        continue;
      }
      waiting.splice(0, count);
      if (status >= 200 && status < 300) continue;
      refused = { lines: (refused?.lines ?? 0) + count, why: `${this.#host} answered ${status}` };
    }
    return refused;
  }

  get #host(): string {
    return new URL(this.#target.url).host;
  }

  /** A status that will be the same the next time. */
  async #answer(body: string, signal: AbortSignal): Promise<number> {
    const limited = AbortSignal.any([signal, AbortSignal.timeout(requestMs)]);
    const status = await this.#post(body, limited).catch((error: unknown) => {
      throw new FlynnError('unavailable', `cannot reach ${this.#host}: ${messageOf(error)}`, { cause: error });
    });
    const isFinal = (status >= 200 && status < 300) || status === tooLarge || refusedForGood.has(status);
    if (!isFinal) throw new FlynnError('unavailable', `${this.#host} answered ${status}`);
    return status;
  }

  async #post(body: string, signal: AbortSignal): Promise<number> {
    const { url, authorization } = this.#target;
    const headers = {
      'content-type': 'application/x-ndjson',
      ...(authorization === undefined ? {} : { authorization }),
    };
    // A name is judged by what it leads to, an address is looked up by nobody.
    this.#outside?.check(hostOf(this.#target));
    await this.#outside?.closeInside(Object.values(this.#agent.freeSockets).flatMap((sockets) => sockets ?? []));
    const send = url.startsWith('https:') ? httpsRequest : httpRequest;
    const request = send(url, { method: 'POST', agent: this.#agent, headers, signal });
    // Given up, it fails once more when its connection ends: with nobody listening, that would end this process.
    request.on('error', () => undefined);
    request.end(body);
    const [response]: unknown[] = await once(request, 'response', { signal });
    if (!(response instanceof IncomingMessage)) throw new FlynnError('internal', 'an answer that is none');
    response.resume();
    await once(response, 'end', { signal });
    return response.statusCode ?? 0;
  }

  async close(): Promise<void> {
    this.#agent.destroy();
  }
}

/** How many of the first go together: one at least. */
function fitting(lines: readonly string[], limitBytes: number): number {
  if (limitBytes === Infinity) return lines.length;
  let bytes = 0;
  const at = lines.findIndex((line) => (bytes += Buffer.byteLength(line)) > limitBytes);
  return at === -1 ? lines.length : Math.max(1, at);
}
