/** One request that is let through: which backends are tried, and what becomes of it. */
import type { Backend } from '../backend.ts';
import type { Answer, Client, Ending, Exchange, Failing, Fields, Limits, Problem } from '../exchange.ts';
import { refusedEntry } from './access.ts';
import type { RefusedEntry } from './access.ts';
import { answerOf, pageFor, problems } from './answers.ts';
import type { Refusal } from './answers.ts';
import { chooseBackend } from './choice.ts';
import { pointFor } from './cookies.ts';
import type { CookieScope } from './cookies.ts';
import { mayEjectOneMore } from './health.ts';
import type { HttpRoute } from './http-route.ts';
import { neverForwarded, neverWithPassword } from './origin.ts';
import type { Origins } from './origin.ts';
import { belowPrefix } from './path.ts';
import { hstsFields } from './policy.ts';
import type { Asked, Entry, PolicyOptions } from './policy.ts';

const maxDials = 4;
const none: readonly Backend[] = [];

/**
 * INVARIANTS. A backend that failed is not picked again, but one that merely broke when nobody else is there: its
 * connection may just have been closed for being idle. What was taken of a backend is given back once.
 */
export class RoutedExchange implements Exchange {
  readonly requestId: string;
  readonly target: string;
  readonly limits: Limits;
  #removedFields = neverForwarded;
  readonly #options: PolicyOptions;
  readonly #route: HttpRoute;
  readonly #asked: Asked;
  readonly #from: { readonly client: Client; readonly origins: Origins };
  readonly #startedMs: number;
  #tried: Backend[] | undefined;
  #dialsFailed = 0;
  /** Broke before it answered, which a request that can be sent again may survive once. */
  #broken: Backend | undefined;
  #hasRepeated = false;
  #current: Backend | undefined;
  #last: Backend | undefined;
  #isProbe = false;
  /** Which backend the client's cookie named, and which release's share it lies in. */
  #named: Backend | undefined;
  #point: number | undefined;
  #newPoint: number | undefined;
  #code: string | undefined;
  /** Until its password is known to be right it is given no backend. */
  #unsure: Extract<Entry, { is: 'unsure' }> | undefined;
  #refused: RefusedEntry | undefined;
  /** For the route's limits. */
  #isCounted: boolean;
  #isOver = false;

  constructor(
    options: PolicyOptions,
    route: HttpRoute,
    { asked, entry }: { asked: Asked; entry: Entry },
    from: { client: Client; origins: Origins },
  ) {
    this.#options = options;
    this.#route = route;
    this.#asked = asked;
    this.#from = from;
    this.#startedMs = options.elapsed();
    this.requestId = asked.requestId;
    this.target = belowPrefix(asked.head.target, route.strippedPrefix);
    this.limits = route.limits;
    this.#isCounted = entry.is === 'in';
    if (entry.is === 'unsure') this.#unsure = entry;
    else if (entry.hasPassword) this.#removedFields = neverWithPassword;
    route.figures.active += 1;
  }

  get removedFields(): ReadonlySet<string> {
    return this.#removedFields;
  }

  get backendProtocol(): 'http1' | 'h2c' {
    return this.#route.settings.protocol;
  }

  get requestFields(): Fields {
    const { head, requestId, nowMs } = this.#asked;
    const from = this.#from.origins.fields(head, this.#from.client);
    return ['x-request-id', requestId, 'x-request-start', String(nowMs), ...from];
  }

  get requestLines(): string {
    const { head, requestId, nowMs } = this.#asked;
    const from = this.#from.origins.lines(head, this.#from.client);
    return 'x-request-id: ' + requestId + '\r\nx-request-start: ' + String(nowMs) + '\r\n' + from;
  }

  pick(): Backend | undefined | Promise<Backend | undefined> {
    if (this.#refused !== undefined) return undefined;
    if (this.#unsure !== undefined) return this.#enter(this.#unsure);
    const { service } = this.#route;
    if (service.backends.length > 0 || service.isOpened) return this.#take();
    return service.opened.then(() => this.#take());
  }

  failed(backend: Backend, how: Failing): void {
    const { counters, log, elapsed } = this.#options;
    (this.#tried ??= []).push(backend);
    backend.figures.failures += 1;
    if (how === 'broke') this.#broken = backend;
    const isAway = how === 'dial' || how === 'vanished';
    if (isAway) this.#dialsFailed += 1;
    if (how === 'dial') counters.dialFailures += 1;
    const { address, service, health } = backend;
    const isProbe = this.#isProbe && backend === this.#current;
    const mayEject = mayEjectOneMore(this.#route.service.backends);
    const isEjected = health.failed(elapsed(), { isProbe, wasDial: isAway, mayEject });
    if (isEjected) backend.figures.ejections += 1;
    // Many requests may be lost with one backend; its first failure and its ejection are news.
    const level = isEjected || health.failures === 1 ? 'warn' : 'debug';
    log[level]({ address, service, how, isEjected, requestId: this.requestId }, 'a backend failed');
  }

  answered(backend: Backend, status: number, hasBody?: boolean): Fields | Answer {
    const route = this.#route;
    const isProbe = this.#isProbe && backend === this.#current;
    // When it was matters of a probe alone.
    backend.health.answered(isProbe ? this.#options.elapsed() : this.#startedMs, isProbe);
    backend.figures.answers.add(status);
    if (hasBody === false && status >= 500 && this.#asked.head.method !== 'HEAD') {
      const page = pageFor(route.settings.pages, { status, code: '' }, this.#asked.head.header('accept'));
      if (page !== undefined) return this.#answer({ status, code: '', message: '' });
    }
    const fields = ['x-request-id', this.requestId];
    if (route.hsts !== undefined) fields.push(...hstsFields(route, this.#asked.origin));
    if (route.settings.sticky && backend !== this.#named) {
      fields.push('set-cookie', this.#options.cookies.forBackend(backend, this.#cookieScope()));
    }
    if (this.#newPoint !== undefined) {
      fields.push('set-cookie', this.#options.cookies.forPoint(this.#newPoint, this.#cookieScope()));
    }
    return fields;
  }

  release(backend: Backend): void {
    if (backend !== this.#current) return;
    this.#current = undefined;
    if (this.#isProbe) backend.health.endProbe();
    this.#isProbe = false;
    backend.giveBack(this.#isTunnel);
  }

  answerFor(problem: Problem): Answer {
    const { refusal, more } = this.#refused ?? { refusal: problems[problem], more: [] };
    return this.#answer(refusal, more);
  }

  end(ending: Ending): void {
    const { accessLog, counters, elapsed } = this.#options;
    const { figures, concurrency, route } = this.#route;
    const { head, origin, nowMs } = this.#asked;
    const tookMs = elapsed() - this.#startedMs;
    this.#isOver = true;
    if (this.#current !== undefined) this.release(this.#current);
    if (this.#isCounted) concurrency?.leave(origin.client);
    figures.active -= 1;
    figures.requests += 1;
    figures.answers.add(ending.status);
    figures.bytesIn += ending.bytesIn;
    figures.bytesOut += ending.bytesOut;
    // How long a WebSocket stays open is no latency.
    if (!this.#isTunnel) figures.took(tookMs);
    if (ending.how === 'client-gone') {
      figures.clientsGone += 1;
      counters.clientsGone += 1;
    } else if (ending.how === 'broken-off') figures.brokenOff += 1;
    accessLog?.write({
      timeMs: nowMs,
      head,
      requestId: this.requestId,
      clientAddress: origin.address,
      isTls: origin.isTls,
      ending,
      tookMs,
      code: this.#code,
      route,
      backend: this.#last?.address,
    });
  }

  /** Finds out whether it may come in at all. Its client may be gone by then. */
  async #enter({ gate, credentials, limit }: Extract<Entry, { is: 'unsure' }>): Promise<Backend | undefined> {
    const { head, origin } = this.#asked;
    const checked = await gate.check(credentials, origin.client, this.#options.passwords);
    this.#unsure = undefined;
    if (this.#isOver) return undefined;
    this.#refused = refusedEntry(checked, head.host) ?? limit();
    if (this.#refused !== undefined) return undefined;
    this.#isCounted = true;
    this.#removedFields = neverWithPassword;
    return this.pick();
  }

  #take(): Backend | undefined {
    if (this.#current !== undefined) this.release(this.#current);
    if (this.#dialsFailed >= maxDials) return undefined;
    const { counters, elapsed } = this.#options;
    const nowMs = elapsed();
    const broken = this.#hasRepeated ? undefined : this.#broken;
    const backend = this.#choose(nowMs) ?? broken;
    if (backend === undefined) return undefined;
    if (this.#tried !== undefined) this.#route.figures.retries += 1;
    if (broken !== undefined) {
      this.#hasRepeated = true;
      counters.retries += 1;
    }
    backend.take(this.#isTunnel);
    this.#isProbe = backend.health.begin(nowMs);
    this.#current = backend;
    this.#last = backend;
    return backend;
  }

  #choose(nowMs: number): Backend | undefined {
    const { settings, service, weights } = this.#route;
    const { random } = this.#options;
    const tried = this.#tried ?? none;
    const { backends } = service;
    if (settings.leader) {
      const { leader } = service;
      return leader === undefined || tried.includes(leader) ? undefined : leader;
    }
    if (settings.sticky) {
      this.#named ??= this.#options.cookies.backendOf(this.#asked.head.header('cookie'), backends);
      const named = this.#named;
      const isThere = named !== undefined && backends.includes(named) && !tried.includes(named);
      if (isThere && named.isUsable(nowMs) && weights?.serves(named) !== false) return named;
    }
    if (weights === undefined) return chooseBackend(backends, nowMs, random, tried);
    const point = settings.releaseAffinity ? (this.#point ??= this.#findPoint()) : random();
    return weights.choose(backends, point, nowMs, random, tried);
  }

  get #isTunnel(): boolean {
    return this.#asked.head.upgrade !== undefined;
  }

  #cookieScope(): CookieScope {
    return { path: this.#route.cookiePath, isTls: this.#asked.origin.isTls };
  }

  /** The same for a client as long as it keeps its cookie, or its address. */
  #findPoint(): number {
    const { head, origin } = this.#asked;
    const known = this.#options.cookies.pointOf(head.header('cookie'));
    if (known !== undefined) return known;
    this.#newPoint = pointFor(origin.client);
    return this.#newPoint;
  }

  #answer(refusal: Refusal, said: Fields = []): Answer {
    const { counters } = this.#options;
    const { code } = refusal;
    if (code !== '') {
      this.#code = code;
      counters.refusals[code] = (counters.refusals[code] ?? 0) + 1;
      this.#route.figures.refused(code);
    }
    const reader = { accept: this.#asked.head.header('accept'), requestId: this.requestId };
    const more = [...hstsFields(this.#route, this.#asked.origin), ...said];
    return answerOf(refusal, reader, this.#route.settings.pages, more);
  }
}
