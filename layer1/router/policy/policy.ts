/** Decides about every request: which route, whether it may pass, and what it gets if not. */
import type { Logger } from '@flynn/kit/log';
import type { Counters } from '../api.ts';
import type { Answer, Client, Fields, Policy, RequestHead, Verdict } from '../exchange.ts';
import type { RefusedEntry, RouteGate } from './access.ts';
import type { AccessLog } from './access-log.ts';
import { answerOf, redirectTo, refusals } from './answers.ts';
import type { Refusal } from './answers.ts';
import type { Cookies } from './cookies.ts';
import { challengeFor } from './credentials.ts';
import type { Credentials } from './credentials.ts';
import type { HttpRoute } from './http-route.ts';
import { Origins, isSafeId } from './origin.ts';
import type { Origin } from './origin.ts';
import type { Networks } from './networks.ts';
import type { Passwords } from './passwords.ts';
import type { RouteBook } from './route-book.ts';
import { RoutedExchange } from './routed-exchange.ts';

export type PolicyOptions = {
  routes: Pick<RouteBook, 'find' | 'isKnown'>;
  cookies: Cookies;
  passwords: Pick<Passwords, 'check'>;
  /** Proxies in front of the router, whose word on where a request is from is taken. */
  trusted: Networks;
  /** Where redirects to https lead. */
  httpsPort: () => number;
  counters: Counters;
  accessLog: AccessLog | undefined;
  log: Logger;
  /** Milliseconds since the epoch; milliseconds that never step back. */
  now: () => number;
  elapsed: () => number;
  /** At least 0, below 1. */
  random: () => number;
  newId: () => string;
};

/**
 * INVARIANTS. Whatever is admitted is counted at its route until its exchange ends, once; so is whatever is refused there.
 * A limit never counts what another limit refused.
 */
export class RouterPolicy implements Policy {
  readonly #options: PolicyOptions;
  readonly #origins: Origins;

  constructor(options: PolicyOptions) {
    this.#options = options;
    this.#origins = new Origins(options.trusted);
  }

  admit(head: RequestHead, client: Client): Verdict {
    const { routes, counters, newId, now } = this.#options;
    if (head.upgrade === undefined) counters.requests += 1;
    else counters.upgrades += 1;
    const given = head.header('x-request-id');
    const requestId = given !== undefined && isSafeId(given) ? given : newId();
    const origin = this.#origins.of(head, client);
    const asked: Asked = { head, origin, requestId, nowMs: now() };
    const route = routes.find(head.host, head.target);
    if (route === undefined)
      return this.#refuse(asked, undefined, routes.isKnown ? refusals.unknownHost : refusals.starting);
    const redirect = this.#redirectFor(asked, route);
    if (redirect !== undefined) return { answer: this.#refused(asked, route, redirect) };
    const entry = this.#entryOf(asked, route);
    if ('answer' in entry) return entry;
    const unfit = unfitFor(head, route);
    if (unfit !== undefined) return this.#refuse(asked, route, unfit);
    const limited = entry.is === 'in' ? this.#limitOf(asked, route) : undefined;
    if (limited !== undefined) return this.#refuse(asked, route, limited.refusal, limited.more);
    return { exchange: new RoutedExchange(this.#options, route, { asked, entry }, { client, origins: this.#origins }) };
  }

  refuse(status: number, code: string, message: string, client: Client): Answer {
    const { counters, newId, now } = this.#options;
    counters.requests += 1;
    const asked: Asked = {
      head: unreadable,
      origin: this.#origins.of(unreadable, client),
      requestId: newId(),
      nowMs: now(),
    };
    const answer = answerOf({ status, code, message }, { accept: undefined, requestId: asked.requestId });
    return this.#refused(asked, undefined, answer);
  }

  #redirectFor({ head, origin, requestId }: Asked, route: HttpRoute): Answer | undefined {
    const { https, canonicalHost } = route.settings;
    const toHttps = https.redirect && !origin.isTls;
    const toHost = canonicalHost !== undefined && canonicalHost !== head.host;
    if (!toHttps && !toHost) return undefined;
    const scheme = toHttps || origin.isTls ? 'https' : 'http';
    const host = toHost ? canonicalHost : head.host;
    const httpsPort = this.#options.httpsPort();
    const port = toHttps ? (httpsPort === 443 ? '' : `:${httpsPort}`) : portOf(head.header('host') ?? '');
    const target = head.target.startsWith('/') ? head.target : '/';
    return redirectTo(`${scheme}://${host}${port}${target}`, requestId, hstsFields(route, origin));
  }

  /** Whether it is for this client at all, as far as that is known at once. */
  #entryOf(asked: Asked, route: HttpRoute): Entry | { readonly answer: Answer } {
    const { head, origin } = asked;
    if (route.maintenance !== undefined && !route.maintenance.has(origin.address)) {
      return this.#refuse(asked, route, refusals.maintenance);
    }
    if (route.gate === undefined) return asItIs;
    const judged = route.gate.judge(origin.address, head.header('authorization'));
    if (judged.is === 'address-refused') return this.#refuse(asked, route, refusals.addressRefused);
    if (judged.is === 'password-wanted') {
      return this.#refuse(asked, route, refusals.passwordWanted, challengeFor(head.host));
    }
    if (judged.is === 'in') return judged;
    const { credentials } = judged;
    return { is: 'unsure', credentials, gate: route.gate, limit: () => this.#limitOf(asked, route) };
  }

  /** Undefined lets it pass; it is counted as under way then. */
  #limitOf({ origin }: Asked, route: HttpRoute): RefusedEntry | undefined {
    const { elapsed } = this.#options;
    if (route.rate === undefined && route.concurrency === undefined) return undefined;
    const entered = route.concurrency?.enter(origin.client) ?? 'entered';
    if (entered === 'client-full') return { refusal: refusals.clientFull, more: ['retry-after', '1'] };
    if (entered === 'full') return { refusal: refusals.full, more: ['retry-after', '1'] };
    const earlyMs = route.rate?.take(origin.client, elapsed()) ?? 0;
    if (earlyMs === 0) return undefined;
    route.concurrency?.leave(origin.client);
    return { refusal: refusals.rateLimited, more: ['retry-after', String(Math.ceil(earlyMs / 1_000))] };
  }

  #refuse(
    asked: Asked,
    route: HttpRoute | undefined,
    refusal: Refusal,
    said: Fields = [],
  ): { readonly answer: Answer } {
    const reader = { accept: asked.head.header('accept'), requestId: asked.requestId };
    const more = [...(route === undefined ? [] : hstsFields(route, asked.origin)), ...said];
    return { answer: this.#refused(asked, route, answerOf(refusal, reader, route?.settings.pages, more)) };
  }

  #refused({ head, origin, requestId, nowMs }: Asked, route: HttpRoute | undefined, answer: Answer): Answer {
    const { counters, accessLog } = this.#options;
    const { status, code } = answer;
    if (code !== '') counters.refusals[code] = (counters.refusals[code] ?? 0) + 1;
    if (route !== undefined) {
      route.figures.requests += 1;
      route.figures.answers.add(status);
      if (code !== '') route.figures.refused(code);
    }
    accessLog?.write({
      timeMs: nowMs,
      head,
      requestId,
      clientAddress: origin.address,
      isTls: origin.isTls,
      ending: { status, bytesIn: 0, bytesOut: Buffer.byteLength(answer.body), how: 'answered' },
      tookMs: 0,
      code: code === '' ? undefined : code,
      route: route?.route,
      backend: undefined,
    });
    return answer;
  }
}

/** Of a request that makes no sense nothing is passed on, not even to the log. */
const unreadable: RequestHead = {
  method: '-',
  target: '-',
  host: '',
  protocol: 'HTTP/1.1',
  body: 'none',
  upgrade: undefined,
  header: () => undefined,
};

/** How a request comes in. */
export type Entry =
  | { readonly is: 'in'; readonly hasPassword: boolean }
  /** Once its password is known to be right. By then it counts for the route's limits, if they let it: they are asked once. */
  | {
      readonly is: 'unsure';
      readonly credentials: Credentials;
      readonly gate: RouteGate;
      readonly limit: () => RefusedEntry | undefined;
    };

const asItIs: Entry = { is: 'in', hasPassword: false };

/** A request, and what is known of it already. */
export type Asked = {
  readonly head: RequestHead;
  readonly origin: Origin;
  readonly requestId: string;
  readonly nowMs: number;
};

/** What no backend of the route could answer. */
function unfitFor(head: RequestHead, route: HttpRoute): Refusal | undefined {
  // What a connection of HTTP/1 becomes by it has no like in a stream of theirs.
  if (route.settings.protocol === 'h2c' && head.protocol !== 'HTTP/2' && head.upgrade !== undefined) {
    return refusals.http2Only;
  }
  const { bodyBytes } = route.limits;
  return bodyBytes > 0 && typeof head.body === 'number' && head.body > bodyBytes ? refusals.tooLarge : undefined;
}

export function hstsFields(route: HttpRoute, origin: Origin): string[] {
  return route.hsts === undefined || !origin.isTls ? [] : ['strict-transport-security', route.hsts];
}

/** With its colon. */
function portOf(host: string): string {
  return /:\d+$/.exec(host)?.[0] ?? '';
}
