/** The policy of routes that say nothing but where they are: finds the route, chooses backends, says what went wrong. */
import { newId } from '@flynn/kit/ids';
import type { Logger } from '@flynn/kit/log';
import type { Counters } from './api.ts';
import type { Backend } from './backend.ts';
import type { Backends } from './backends.ts';
import { pickBackend } from './balance.ts';
import type {
  Answer,
  Client,
  Ending,
  Exchange,
  Fields,
  Limits,
  Policy,
  Problem,
  RequestHead,
  Verdict,
} from './exchange.ts';
import { answerOf, refusals } from './refusal.ts';
import type { Refusal } from './refusal.ts';
import { matchRoute } from './table.ts';
import type { RouteTable } from './table.ts';

const maxDials = 4;

export type Timeouts = Pick<Limits, 'dialMs' | 'firstByteMs' | 'idleMs'>;

export type ProxyOptions = {
  /** Undefined until the routes are known. */
  table: () => RouteTable | undefined;
  backends: Pick<Backends, 'of'>;
  counters: Counters;
  timeouts: Timeouts;
  log: Logger;
};

const problems: Record<Problem, Refusal> = {
  'no-backends': refusals.noBackends,
  unreachable: refusals.unreachable,
  'backend-broke': refusals.broken,
  'backend-late': refusals.late,
  'too-late': refusals.late,
  'body-too-large': { status: 413, code: 'body-too-large', message: 'The app takes no request as large as this.' },
  'client-slow': { status: 408, code: 'client-slow', message: 'The rest of the request did not come in time.' },
};

export class Proxy implements Policy {
  readonly options: ProxyOptions;
  readonly limits: Limits;

  constructor(options: ProxyOptions) {
    this.options = options;
    this.limits = { ...options.timeouts, totalMs: 0, bodyBytes: 0, bufferBytes: 0 };
  }

  admit(head: RequestHead, client: Client): Verdict {
    const { counters, table } = this.options;
    if (head.upgrade === undefined) counters.requests += 1;
    else counters.upgrades += 1;
    const requestId = requestIdOf(head.header('x-request-id'), newId);
    const known = table();
    const route = known === undefined ? undefined : matchRoute(known, head.host, head.target);
    if (route !== undefined)
      return { exchange: new RouteExchange(this, { head, client, requestId, service: route.service }) };
    return { answer: this.answer(known === undefined ? refusals.starting : refusals.unknownHost, { head, requestId }) };
  }

  refuse(status: number, code: string, message: string): Answer {
    return this.answer({ status, code, message }, { head: undefined, requestId: newId() });
  }

  answer(refusal: Refusal, { head, requestId }: { head: RequestHead | undefined; requestId: string }): Answer {
    const counts = this.options.counters.refusals;
    counts[refusal.code] = (counts[refusal.code] ?? 0) + 1;
    const wantsHtml = head?.header('accept')?.includes('text/html') ?? false;
    return answerOf(refusal, { requestId, wantsHtml });
  }
}

const nothing: ReadonlySet<string> = new Set();

class RouteExchange implements Exchange {
  readonly requestId: string;
  readonly target: string;
  readonly backendProtocol = 'http1';
  readonly limits: Limits;
  readonly requestFields: Fields;
  readonly removedFields = nothing;
  readonly #proxy: Proxy;
  readonly #head: RequestHead;
  readonly #service: string;
  readonly #tried = new Set<Backend>();
  #release: (() => void) | undefined;
  #dials = 0;
  #broken: Backend | undefined;

  constructor(proxy: Proxy, what: { head: RequestHead; client: Client; requestId: string; service: string }) {
    const { head, client, requestId } = what;
    this.#proxy = proxy;
    this.#head = head;
    this.#service = what.service;
    this.requestId = requestId;
    this.target = head.target;
    this.limits = proxy.limits;
    const before = head.header('x-forwarded-for');
    this.requestFields = [
      'x-request-id',
      requestId,
      'x-request-start',
      String(Date.now()),
      'x-forwarded-for',
      before === undefined ? client.address : `${before}, ${client.address}`,
      'x-forwarded-proto',
      client.isTls ? 'https' : 'http',
      'x-forwarded-port',
      String(client.localPort),
    ];
  }

  async pick(): Promise<Backend | undefined> {
    if (this.#dials >= maxDials) return undefined;
    const backends = await this.#proxy.options.backends.of(this.#service);
    const choose = (tried: ReadonlySet<Backend>) =>
      pickBackend(backends, { nowMs: Date.now(), random: Math.random, tried });
    // If it is the only one, once more there: the connection may just have been closed for being idle.
    const backend = choose(this.#tried) ?? (this.#broken === undefined ? undefined : choose(nothingTried));
    if (this.#broken !== undefined) this.#proxy.options.counters.retries += 1;
    this.#broken = undefined;
    this.#release = backend?.use();
    return backend;
  }

  failed(backend: Backend, how: 'dial' | 'broke' | 'late'): void {
    this.#tried.add(backend);
    if (how === 'broke') this.#broken = backend;
    if (how !== 'dial') return;
    this.#dials += 1;
    backend.avoid(Date.now());
    this.#proxy.options.counters.dialFailures += 1;
    this.#proxy.options.log.warn({ address: backend.address, service: backend.service }, 'cannot reach a backend');
  }

  answered(): Fields {
    return ['x-request-id', this.requestId];
  }

  release(): void {
    this.#release?.();
    this.#release = undefined;
  }

  answerFor(problem: Problem): Answer {
    return this.#proxy.answer(problems[problem], { head: this.#head, requestId: this.requestId });
  }

  end(ending: Ending): void {
    if (ending.how === 'client-gone') this.#proxy.options.counters.clientsGone += 1;
  }
}

const nothingTried: ReadonlySet<Backend> = new Set();

/** An id the client gave is kept if it is safe to put anywhere. */
function requestIdOf(given: string | undefined, newId: () => string): string {
  return given !== undefined && /^[A-Za-z0-9._+=/-]{20,200}$/.test(given) ? given : newId();
}
