/** Batches of ndjson to an http address. */
import { once } from 'node:events';
import { Agent as HttpAgent, IncomingMessage, request as httpRequest } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import type { Outside } from '@flynn/kit/outside';
import type { NamedLine, Transport } from './drain-transport.ts';
import type { Target } from './drain-url.ts';

const requestMs = 30_000;
/** What these answers say of a request is true of the same request later. */
const refusedForGood: ReadonlySet<number> = new Set([400, 413, 415, 422]);

export type Trust = Readonly<{ ca: string | undefined; outside: Outside | undefined }>;

export class HttpTarget implements Transport {
  readonly doubtMs = 0;
  readonly isBroken = false;
  readonly #target: Extract<Target, { kind: 'http' }>;
  readonly #agent: HttpAgent;
  readonly #outside: Outside | undefined;

  constructor(target: Extract<Target, { kind: 'http' }>, { ca, outside }: Trust) {
    this.#target = target;
    this.#outside = outside;
    const options = { keepAlive: true, maxSockets: 1, ...(outside && { lookup: outside.lookup }) };
    const trust = ca === undefined ? {} : { ca };
    this.#agent = target.url.startsWith('https:') ? new HttpsAgent({ ...options, ...trust }) : new HttpAgent(options);
  }

  async send(lines: readonly NamedLine[], signal: AbortSignal): Promise<void> {
    const { host } = new URL(this.#target.url);
    const body = lines.map(({ app, appName, line }) => `${JSON.stringify({ appId: app, app: appName, ...line })}\n`);
    const status = await this.#post(body.join(''), AbortSignal.any([signal, AbortSignal.timeout(requestMs)])).catch(
      (error: unknown) => {
        throw new FlynnError('unavailable', `cannot reach ${host}: ${messageOf(error)}`, { cause: error });
      },
    );
    if (status >= 200 && status < 300) return;
    throw new FlynnError(refusedForGood.has(status) ? 'invalid' : 'unavailable', `${host} answered ${status}`);
  }

  async #post(body: string, signal: AbortSignal): Promise<number> {
    const { url, authorization } = this.#target;
    const headers = {
      'content-type': 'application/x-ndjson',
      ...(authorization === undefined ? {} : { authorization }),
    };
    // A name is judged by what it leads to, an address is looked up by nobody.
    this.#outside?.check(new URL(url).hostname.replace(/^\[(.*)\]$/, '$1'));
    const send = url.startsWith('https:') ? httpsRequest : httpRequest;
    const request = send(url, { method: 'POST', agent: this.#agent, headers, signal });
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
