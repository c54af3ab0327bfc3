/**
 * The same as the fast front on node:http, with http-proxy for upgrades: slower, and there to compare with, as well as to
 * fall back on. Fields after a body (trailers) end here.
 */
import { Agent, createServer } from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { systemClock } from '@flynn/kit/clock';
import { asFlynnError } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { dial, hasVanished } from '../backend.ts';
import type { Backend } from '../backend.ts';
import { answersToOneEnd } from '../exchange.ts';
import type { Answer, Client, Ending, Exchange, Http1Speaker, Policy, Problem } from '../exchange.ts';
import { Deadlines } from '../http1/deadlines.ts';
import type { Watched } from '../http1/deadlines.ts';
import { HeadProblem } from '../http1/fields.ts';
import type { Http1RequestHead } from '../http1/request-head.ts';
import { answerText } from '../http1/rewrite.ts';
import { collect } from './collect.ts';
import { forward } from './forward.ts';
import type { Outcome } from './forward.ts';
import { requestHeadersFor, requestHeadOf } from './heads.ts';
import { OneConnection } from './one-connection.ts';
import { UpgradeProxy } from './upgrade.ts';

const goodbyeMs = 3_000;

export class ReferenceFront implements Http1Speaker {
  readonly #policy: Policy;
  readonly #server: Server;
  readonly #deadlines = new Deadlines();
  readonly #upgrades = new UpgradeProxy(this.#deadlines);
  readonly #sockets = new Map<Socket, Client>();
  readonly #agents = new WeakMap<Backend, Agent>();
  readonly #toShare = new WeakSet<Socket>();
  #answersOfOlder = 0;
  #isDraining = false;

  constructor(options: { policy: Policy; log: Logger }) {
    const { log } = options;
    this.#policy = options.policy;
    this.#server = createServer({
      requestTimeout: 0,
      headersTimeout: 60_000,
      keepAliveTimeout: 75_000,
      maxHeaderSize: 64 * 1024,
      requireHostHeader: false,
      shouldUpgradeCallback: ({ method, headers }) => method === 'GET' && !/\bh2c\b/i.test(headers.upgrade ?? 'h2c'),
    });
    for (const [event, expectsContinue] of [
      ['request', false],
      ['checkContinue', true],
    ] as const) {
      this.#server.on(event, (request, response) => {
        if (this.#isDraining || (this.#toShare.has(request.socket) && this.#isLetGo()))
          response.shouldKeepAlive = false;
        this.#handle(request, response, expectsContinue).catch((error: unknown) => {
          log.error({ err: error }, 'a request failed in the router itself');
          response.destroy();
        });
      });
    }
    this.#server.on('upgrade', (request, socket, head) => {
      socket.on('error', (error) => log.debug({ err: error }, 'an upgraded connection broke'));
      this.#handleUpgrade(request, socket, head).catch((error: unknown) => {
        log.error({ err: error }, 'an upgrade failed in the router itself');
        socket.destroy();
      });
    });
  }

  take(socket: Socket, client: Client, early?: Buffer): void {
    this.#sockets.set(socket, client);
    socket.once('close', () => this.#sockets.delete(socket));
    if (early !== undefined && early.length > 0) socket.unshift(early);
    this.#server.emit('connection', socket);
  }

  get connections(): number {
    return this.#sockets.size;
  }

  shareOut(): void {
    for (const socket of this.#sockets.keys()) this.#toShare.add(socket);
  }

  #isLetGo(): boolean {
    this.#answersOfOlder += 1;
    return this.#answersOfOlder % answersToOneEnd === 0;
  }

  async drain(options: { deadlineMs: number }): Promise<void> {
    this.#isDraining = true;
    const startedMs = performance.now();
    const goodbyeEndMs = this.#deadlines.after(Math.min(goodbyeMs, options.deadlineMs / 2));
    const goodbye: Watched = {
      tick: (nowMs) => {
        if (nowMs > goodbyeEndMs) this.#server.closeIdleConnections();
      },
    };
    this.#deadlines.add(goodbye);
    while (this.#sockets.size > 0 && performance.now() - startedMs < options.deadlineMs) await systemClock.sleep(50);
    this.#deadlines.delete(goodbye);
    for (const socket of this.#sockets.keys()) socket.destroy();
    this.#server.close();
  }

  async #handle(request: IncomingMessage, response: ServerResponse, expectsContinue: boolean): Promise<void> {
    const client = this.#clientOf(request);
    const head = requestHeadOf(request);
    const answer = (what: Answer) => sendAnswer(request, response, what, head);
    if (head instanceof HeadProblem) {
      answer(this.#policy.refuse(head.status, head.code, head.message, client));
      return;
    }
    const verdict = this.#policy.admit(head, client);
    if ('answer' in verdict) {
      answer(verdict.answer);
      return;
    }
    const { exchange } = verdict;
    if (exchange.backendProtocol === 'h2c') {
      const message = 'This app speaks HTTP/2 only, and this driver of the router does not. Ask it over HTTP/2.';
      answer(this.#policy.refuse(505, 'http2-only', message, client));
      exchange.end({ status: 505, bytesIn: 0, bytesOut: 0, how: 'answered' });
      return;
    }
    const counts = { bytesOut: 0 };
    const outcome = await this.#send(request, response, { head, exchange, expectsContinue, counts });
    let how: Ending['how'] = 'answered';
    if (typeof outcome === 'string') answer(exchange.answerFor(outcome));
    else if (outcome.kind === 'replaced') answer(outcome.answer);
    else if (outcome.kind === 'client-gone') how = 'client-gone';
    else if (outcome.kind !== 'answered') {
      how = 'broken-off';
      response.destroy();
    }
    const bytesIn = typeof head.body === 'number' ? head.body : 0;
    exchange.end({ status: response.headersSent ? response.statusCode : 0, bytesIn, bytesOut: counts.bytesOut, how });
  }

  async #send(
    request: IncomingMessage,
    response: ServerResponse,
    what: { head: Http1RequestHead; exchange: Exchange; expectsContinue: boolean; counts: { bytesOut: number } },
  ): Promise<Outcome | Problem> {
    const { head, exchange, counts } = what;
    const { limits } = exchange;
    const isRepeatable = head.body === 'none' && (head.method === 'GET' || head.method === 'HEAD');
    if (limits.bodyBytes > 0 && typeof head.body === 'number' && head.body > limits.bodyBytes) return 'body-too-large';
    // Only what is known to fit: the rest is passed on as it comes.
    const isCollecting = typeof head.body === 'number' && head.body <= limits.bufferBytes;
    if (isCollecting && what.expectsContinue) response.writeContinue();
    const body = isCollecting ? await collect(request, limits, this.#deadlines) : undefined;
    if (typeof body === 'string') return body;
    let problem: Problem = 'no-backends';
    let hasRepeated = false;
    const startedMs = performance.now();
    for (;;) {
      const backend = await exchange.pick();
      if (backend === undefined) return problem;
      if (response.destroyed) {
        exchange.release(backend);
        return { kind: 'client-gone' };
      }
      const agent = await this.#agentFor(backend, {
        isRepeatable: isRepeatable && !hasRepeated,
        dialMs: limits.dialMs,
      });
      const outcome: Outcome =
        agent instanceof Error
          ? { kind: 'dial-failed', error: agent }
          : await forward(request, response, {
              backend,
              agent,
              target: exchange.target,
              headers: requestHeadersFor(head, exchange),
              hasBody: head.body !== 'none',
              expectsContinue: what.expectsContinue,
              limits,
              deadlines: this.#deadlines,
              leftMs: limits.totalMs === 0 ? undefined : Math.max(0, limits.totalMs - (performance.now() - startedMs)),
              body,
              answered: (status, hasBody) => exchange.answered(backend, status, hasBody),
              passed: (bytes) => (counts.bytesOut += bytes),
            });
      if (outcome.kind === 'dial-failed') {
        exchange.failed(backend, 'dial');
        problem = 'unreachable';
      } else if (outcome.kind === 'dropped')
        exchange.failed(backend, hasVanished(outcome.error) ? 'vanished' : 'broke');
      else if (outcome.kind === 'late') exchange.failed(backend, 'late');
      exchange.release(backend);
      if (outcome.kind === 'dial-failed') continue;
      if (outcome.kind === 'dropped') {
        const isVanished = hasVanished(outcome.error);
        if (!isRepeatable || (hasRepeated && !isVanished) || response.headersSent) return 'backend-broke';
        hasRepeated ||= !isVanished;
        problem = 'backend-broke';
      } else if (outcome.kind === 'late') return 'backend-late';
      else if (outcome.kind === 'client-slow' || outcome.kind === 'body-too-large' || outcome.kind === 'too-late')
        return outcome.kind;
      else return outcome;
    }
  }

  async #handleUpgrade(request: IncomingMessage, socket: Duplex, early: Buffer): Promise<void> {
    const client = this.#clientOf(request);
    const head = requestHeadOf(request);
    if (head instanceof HeadProblem) {
      return endWith(socket, this.#policy.refuse(head.status, head.code, head.message, client));
    }
    const verdict = this.#policy.admit(head, client);
    if ('answer' in verdict) return endWith(socket, verdict.answer);
    const { exchange } = verdict;
    let problem: Problem | undefined = 'no-backends';
    let status = 0;
    while (problem !== undefined) {
      const backend = await exchange.pick();
      if (backend === undefined) break;
      try {
        const upstream = await dial(backend, {
          timeoutMs: exchange.limits.dialMs,
          deadlines: this.#deadlines,
        });
        problem = undefined;
        await this.#upgrades.run({
          request,
          socket,
          head: early,
          upstream,
          backend,
          headers: requestHeadersFor(head, exchange),
          target: exchange.target,
          limits: exchange.limits,
          answered: (given) => {
            status = given;
            exchange.answered(backend, given);
          },
          refuse: (what) => {
            exchange.failed(backend, what === 'backend-late' ? 'late' : 'broke');
            endWith(socket, exchange.answerFor(what));
          },
        });
      } catch {
        exchange.failed(backend, 'dial');
        problem = 'unreachable';
      } finally {
        exchange.release(backend);
      }
    }
    if (problem !== undefined) endWith(socket, exchange.answerFor(problem));
    exchange.end({ status, bytesIn: 0, bytesOut: 0, how: 'answered' });
  }

  #clientOf(request: IncomingMessage): Client {
    return this.#sockets.get(request.socket) ?? { address: '', port: 0, localPort: 0, isTls: false };
  }

  /**
   * Or why there is none: to the platform's own parts a connection is made before, for nothing may be said before it is known
   * to whom.
   */
  async #agentFor(backend: Backend, how: { isRepeatable: boolean; dialMs: number }): Promise<Agent | Error> {
    // What cannot be sent again goes over a connection of its own: no other may be closing at this moment.
    if (backend.mutual === undefined) return how.isRepeatable ? this.#agentOf(backend) : new Agent();
    try {
      return new OneConnection(await dial(backend, { timeoutMs: how.dialMs, deadlines: this.#deadlines }));
    } catch (error) {
      return asFlynnError(error);
    }
  }

  #agentOf(backend: Backend): Agent {
    const known = this.#agents.get(backend);
    if (known !== undefined) return known;
    const agent = new Agent({ keepAlive: true, keepAliveMsecs: 15_000, maxFreeSockets: 256, timeout: 4_000 });
    this.#agents.set(backend, agent);
    backend.onLeave(() => {
      agent.maxFreeSockets = 0;
      for (const socket of Object.values(agent.freeSockets).flat()) socket?.destroy();
    });
    return agent;
  }
}

function sendAnswer(
  request: IncomingMessage,
  response: ServerResponse,
  answer: Answer,
  head: Http1RequestHead | HeadProblem,
): void {
  if (response.headersSent || response.destroyed) {
    response.destroy();
    return;
  }
  // A body that was announced but not read must not be taken for the next request.
  if (head instanceof HeadProblem || (head.body !== 'none' && !request.complete)) response.shouldKeepAlive = false;
  const code = answer.code === '' ? [] : ['x-flynn-error', answer.code];
  const length = ['content-length', String(Buffer.byteLength(answer.body))];
  response.writeHead(answer.status, [...answer.fields, ...code, ...length]);
  response.end(answer.body);
}

function endWith(socket: Duplex, answer: Answer): void {
  if (socket.destroyed || !socket.writable) return;
  const text = answerText(answer, { isForHead: false, connection: 'connection: close\r\n' });
  // Nobody reads from it, so the client's end would never be noticed.
  socket.end(Buffer.from(text, 'latin1'), () => socket.destroy());
}
