/**
 * etcd's own JSON gateway, asked on behalf of somebody else: requests that were checked and written anew by then go to it, and
 * what it answers, a watch too, goes back as it comes. Over gRPC each answer would be decoded only to be put into the same form.
 */
import { Agent as PlainAgent, type IncomingMessage, request as plainRequest } from 'node:http';
import { Agent as TlsAgent, request as tlsRequest } from 'node:https';
import type { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { abortError } from '@flynn/kit/clock';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import type { EtcdTls } from './etcd-members.ts';

export type GatewayOptions = Readonly<{
  /** Where members are at the moment; at least one. */
  endpoints: () => readonly string[];
  tls?: EtcdTls | undefined;
  /** Until an answer begins, however many members are asked for it. Default 3000. */
  timeoutMs?: number;
}>;

export type GatewayCall = Readonly<{
  /** `/v3/kv/range` */
  path: string;
  /** Sent as JSON. */
  body: object;
  /** It may be done twice: the next member is asked when one does not answer. */
  isRepeatable: boolean;
  /** Its answer goes on and on: it breaks when its member is given up. */
  isLasting?: boolean;
  /** Ends the answer's body too. */
  signal: AbortSignal;
}>;

/** As etcd gave it: a refusal has its status and its body, too. */
export type GatewayAnswer = Readonly<{ status: number; body: Readable }>;

const leastMs = 50;
/** Nothing has been sent by then. */
const connectMs = 1_000;
const unavailableStatus = 503;

/** Clients mostly ask every ten seconds. A few connections stay that long; one that idles keeps no process from ending. */
const pool = { keepAlive: true, maxFreeSockets: 4, timeout: 15_000 } as const;

/** Without a leader a member is to say so at once, and to end its watches. The gateway hands such headers on to etcd. */
const withLeader = { 'grpc-metadata-hasleader': 'true' };

type Outcome = Readonly<{ answer: IncomingMessage } | { error: FlynnError; wasSent: boolean }>;

/**
 * INVARIANTS. What may not be done twice is sent to one member at most. Answers that last come from no member that failed since
 * and was not heard again while another was.
 */
export class EtcdGateway implements Disposable {
  readonly #options: GatewayOptions;
  readonly #plain = new PlainAgent(pool);
  readonly #tls = new TlsAgent(pool);
  /** Who answered last. */
  #current: string | undefined;
  readonly #suspects = new Set<string>();
  readonly #lasting = new Map<Readable, string>();

  constructor(options: GatewayOptions) {
    this.#options = options;
  }

  /**
   * Resolves with the answer's head. Throws `unavailable` when no member answers: what is not repeatable may have been carried out
   * all the same. `cancelled`.
   */
  async ask(call: GatewayCall): Promise<GatewayAnswer> {
    const untilMs = performance.now() + (this.#options.timeoutMs ?? 3_000);
    const members = this.#order();
    let refusal: IncomingMessage | undefined;
    let failure: FlynnError | undefined;
    for (const [index, endpoint] of members.entries()) {
      const leftMs = untilMs - performance.now();
      if (leftMs < leastMs) break;
      const shareMs = leftMs / (members.length - index);
      const answerMs = call.isRepeatable ? shareMs : leftMs;
      const outcome = await this.#send(endpoint, call, { connectMs: Math.min(connectMs, shareMs), answerMs });
      if (call.signal.aborted) throw abortError(call.signal);
      if ('error' in outcome) {
        this.#suspect(endpoint);
        failure = outcome.error;
        if (outcome.wasSent && !call.isRepeatable) break;
        continue;
      }
      refusal?.destroy();
      refusal = undefined;
      const { answer } = outcome;
      if (answer.statusCode !== unavailableStatus) return this.#heard(endpoint, answer, call);
      this.#suspect(endpoint);
      refusal = answer;
      if (!call.isRepeatable) break;
    }
    if (refusal !== undefined) return answerOf(refusal);
    throw new FlynnError('unavailable', `etcd did not answer ${call.path}: ${messageOf(failure ?? 'too late')}`);
  }

  /** Answers that last break; nothing is to be asked any more. */
  [Symbol.dispose](): void {
    for (const body of this.#lasting.keys()) body.destroy();
    this.#plain.destroy();
    this.#tls.destroy();
  }

  /** Who answered last, then the others, those that failed last. */
  #order(): string[] {
    const endpoints = this.#options.endpoints();
    const rank = (endpoint: string): number => (this.#suspects.has(endpoint) ? 2 : endpoint === this.#current ? 0 : 1);
    return endpoints.toSorted((a, b) => rank(a) - rank(b));
  }

  #suspect(endpoint: string): void {
    this.#suspects.add(endpoint);
  }

  /** Another answers where these did not: whoever waits for what they may have to tell waits for it elsewhere. */
  #heard(endpoint: string, answer: IncomingMessage, { isLasting = false }: GatewayCall): GatewayAnswer {
    this.#current = endpoint;
    this.#suspects.delete(endpoint);
    for (const [body, member] of this.#lasting) if (this.#suspects.has(member)) body.destroy();
    if (isLasting) {
      this.#lasting.set(answer, endpoint);
      answer.once('close', () => this.#lasting.delete(answer));
    }
    return answerOf(answer);
  }

  #send(
    endpoint: string,
    { path, body, signal }: GatewayCall,
    limits: { connectMs: number; answerMs: number },
  ): Promise<Outcome> {
    const url = new URL(path, endpoint);
    const text = JSON.stringify(body);
    const headers = { ...withLeader, 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) };
    const options = { method: 'POST', headers, signal } as const;
    const request =
      url.protocol === 'https:'
        ? tlsRequest(url, { ...options, ...credentialsOf(this.#options.tls), agent: this.#tls })
        : plainRequest(url, { ...options, agent: this.#plain });
    const { promise, resolve } = Promise.withResolvers<Outcome>();
    let wasSent = false;
    const late = (what: string) => () => request.destroy(new FlynnError('timeout', `${endpoint} ${what} in time`));
    const connecting = setTimeout(late('was not reached'), limits.connectMs);
    const answering = setTimeout(late('did not answer'), limits.answerMs);
    request.once('socket', (socket: Socket) => {
      const sent = () => {
        wasSent = true;
        clearTimeout(connecting);
      };
      if (request.reusedSocket) return sent();
      socket.setKeepAlive(true, 6_000);
      return void socket.once(url.protocol === 'https:' ? 'secureConnect' : 'connect', sent);
    });
    const settle = (outcome: Outcome) => {
      clearTimeout(connecting);
      clearTimeout(answering);
      resolve(outcome);
    };
    request.once('response', (answer) => settle({ answer }));
    // One that breaks later breaks its answer's body, and is told there.
    request.on('error', (error) =>
      settle({ error: new FlynnError('unavailable', messageOf(error), { cause: error }), wasSent }),
    );
    request.end(text);
    return promise;
  }
}

function answerOf(answer: IncomingMessage): GatewayAnswer {
  return { status: answer.statusCode ?? 0, body: answer };
}

/** Read for each connection: what is renewed is shown from the next on. */
function credentialsOf(tls: EtcdTls | undefined) {
  return tls === undefined ? {} : { ca: tls.ca, cert: tls.certificate, key: tls.privateKey };
}
