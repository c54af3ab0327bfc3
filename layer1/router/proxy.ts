/** Answers requests: finds the route, picks a backend, tries again where that is safe, and says what went wrong. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { TLSSocket } from 'node:tls';
import type { Route } from '@flynn/controller/model';
import { messageOf } from '@flynn/kit/errors';
import { newId } from '@flynn/kit/ids';
import type { Logger } from '@flynn/kit/log';
import type { Counters } from './api.ts';
import { dial } from './backend.ts';
import type { Backend } from './backend.ts';
import type { Backends } from './backends.ts';
import { pickBackend } from './balance.ts';
import { forward } from './forward.ts';
import type { Outcome, Timeouts } from './forward.ts';
import { checkHead, requestHeaders, requestIdOf } from './headers.ts';
import type { CheckedHead } from './headers.ts';
import { refusals, refuse, refuseSocket } from './refusal.ts';
import type { Refusal } from './refusal.ts';
import { matchRoute } from './table.ts';
import type { RouteTable } from './table.ts';
import { UpgradeProxy } from './upgrade.ts';

const maxDials = 4;

export type ProxyOptions = {
  /** Undefined until the routes are known. */
  table: () => RouteTable | undefined;
  backends: Pick<Backends, 'of'>;
  counters: Counters;
  timeouts: Timeouts;
  log: Logger;
};

type Found = { route: Route; head: CheckedHead } | { refusal: Refusal };

/**
 * INVARIANTS. Every request gets a backend's answer or an honest one of the router. Another backend is tried after a
 * failed dial, up to four; a GET or HEAD without a body is sent once more if its connection broke before the answer.
 * Nothing else is ever sent twice.
 */
export class Proxy {
  readonly #options: ProxyOptions;
  readonly #upgrades: UpgradeProxy;

  constructor(options: ProxyOptions) {
    this.#options = options;
    this.#upgrades = new UpgradeProxy(options.timeouts);
  }

  async handle(request: IncomingMessage, response: ServerResponse, expectsContinue: boolean): Promise<void> {
    const { counters, log } = this.#options;
    counters.requests += 1;
    const startedMs = performance.now();
    const requestId = requestIdOf(request.headers['x-request-id'], newId);
    const found = this.#find(request);
    let outcome: Outcome | Refusal;
    if ('refusal' in found) outcome = found.refusal;
    else outcome = await this.#send(request, response, { ...found, requestId, expectsContinue });
    if ('status' in outcome) {
      this.#count(outcome);
      const wantsHtml = request.headers.accept?.includes('text/html') ?? false;
      // A body that was announced but not read must not be taken for the next request.
      refuse(response, outcome, { requestId, wantsHtml, closes: announcesBody(request) && !request.complete });
    } else if (outcome.kind === 'broken-off') response.destroy();
    else if (outcome.kind === 'client-gone') counters.clientsGone += 1;
    if (log.isLevelEnabled('debug')) {
      const { method, url, headers } = request;
      const result = 'status' in outcome ? outcome.code : outcome.kind;
      const ms = Math.round(performance.now() - startedMs);
      log.debug({ requestId, method, url, host: headers.host, status: response.statusCode, result, ms }, 'request');
    }
  }

  async handleUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const { counters, log, timeouts } = this.#options;
    counters.upgrades += 1;
    socket.on('error', (error) => log.debug({ err: error }, 'an upgraded connection broke'));
    const requestId = requestIdOf(request.headers['x-request-id'], newId);
    const answer = (refusal: Refusal) => {
      this.#count(refusal);
      refuseSocket(socket, refusal, requestId);
    };
    const found = this.#find(request);
    if ('refusal' in found) return answer(found.refusal);
    if (found.head.body !== 'none') {
      return answer({
        status: 400,
        code: 'bad-request',
        message: 'A request to upgrade the connection cannot have a body.',
      });
    }
    const tried = new Set<Backend>();
    while (tried.size < maxDials) {
      const backend = await this.#pick(found.route, tried);
      if (backend === undefined) break;
      tried.add(backend);
      const release = backend.use();
      try {
        const upstream = await dial(backend, { timeoutMs: timeouts.dialMs });
        const hop = this.#hop(request, requestId);
        await this.#upgrades.run({
          request,
          socket,
          head,
          upstream,
          backend,
          hop,
          target: found.head.target,
          refuse: answer,
        });
        return;
      } catch (error) {
        this.#dialFailed(backend, error);
      } finally {
        release();
      }
    }
    answer(tried.size === 0 ? refusals.noBackends : refusals.unreachable);
  }

  #find(request: IncomingMessage): Found {
    const head = checkHead(request);
    if ('problem' in head) {
      const code = head.status === 400 ? 'bad-request' : 'unknown-coding';
      return { refusal: { status: head.status, code, message: `The router refuses this request: ${head.problem}.` } };
    }
    const table = this.#options.table();
    if (table === undefined) return { refusal: refusals.starting };
    const route = matchRoute(table, head.host, head.target);
    return route === undefined ? { refusal: refusals.unknownHost } : { route, head };
  }

  async #send(
    request: IncomingMessage,
    response: ServerResponse,
    what: { route: Route; head: CheckedHead; requestId: string; expectsContinue: boolean },
  ): Promise<Outcome | Refusal> {
    const { counters, timeouts } = this.#options;
    const { head, requestId } = what;
    const canRepeat = head.body === 'none' && (request.method === 'GET' || request.method === 'HEAD');
    const headers = requestHeaders(request, head.body, this.#hop(request, requestId));
    const tried = new Set<Backend>();
    let dials = 0;
    let hasRepeated = false;
    while (dials < maxDials) {
      const backend = await this.#pick(what.route, tried);
      if (backend === undefined) break;
      if (response.destroyed) return { kind: 'client-gone' };
      if (!canRepeat) backend.closeStale();
      const release = backend.use();
      const outcome = await forward(request, response, {
        backend,
        target: head.target,
        headers,
        hasBody: head.body !== 'none',
        expectsContinue: what.expectsContinue,
        requestId,
        timeouts,
      }).finally(release);
      if (outcome.kind === 'dial-failed') {
        dials += 1;
        tried.add(backend);
        this.#dialFailed(backend, outcome.error);
      } else if (outcome.kind === 'dropped') {
        if (!canRepeat || hasRepeated) return refusals.broken;
        hasRepeated = true;
        counters.retries += 1;
        // If it is the only one, once more there: the connection may just have been closed for being idle.
        const others = await this.#pick(what.route, new Set([...tried, backend]));
        if (others !== undefined) tried.add(backend);
      } else return outcome.kind === 'late' ? refusals.late : outcome;
    }
    return dials === 0 ? refusals.noBackends : refusals.unreachable;
  }

  async #pick(route: Route, tried: ReadonlySet<Backend>): Promise<Backend | undefined> {
    const backends = await this.#options.backends.of(route.service);
    return pickBackend(backends, { nowMs: Date.now(), random: Math.random, tried });
  }

  #dialFailed(backend: Backend, error: unknown): void {
    backend.avoid(Date.now());
    this.#options.counters.dialFailures += 1;
    const { address, service } = backend;
    this.#options.log.warn({ address, service, reason: messageOf(error) }, 'cannot reach a backend');
  }

  #hop(request: IncomingMessage, requestId: string) {
    const { remoteAddress = '', localPort = 0 } = request.socket;
    const isTls = request.socket instanceof TLSSocket;
    return { requestId, remoteAddress, localPort, isTls, nowMs: Date.now() };
  }

  #count(refusal: Refusal): void {
    const { refusals } = this.#options.counters;
    refusals[refusal.code] = (refusals[refusal.code] ?? 0) + 1;
  }
}

function announcesBody(request: IncomingMessage): boolean {
  return request.headers['transfer-encoding'] !== undefined || (request.headers['content-length'] ?? '0') !== '0';
}
