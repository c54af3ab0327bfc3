/** A route as it is used for each request: everything that can be worked out beforehand is. */
import { isDeepStrictEqual } from 'node:util';
import type { Route } from '@flynn/controller/model';
import { unguarded } from '@flynn/controller/routes/guard';
import type { HttpSettings } from '@flynn/controller/routes/settings';
import type { Backend } from '../backend.ts';
import type { Service } from '../backends.ts';
import type { Limits, Timeouts } from '../exchange.ts';
import { RouteGate } from './access.ts';
import { RouteFigures } from './figures.ts';
import { prefixOf } from './host-table.ts';
import type { Place } from './host-table.ts';
import { Networks } from './networks.ts';
import { Concurrency, RateLimit } from './rate.ts';
import { Weights } from './weights.ts';

export class HttpRoute implements Place {
  readonly id: string;
  readonly domain: string;
  readonly path: string;
  readonly createdAt: string;
  readonly settings: HttpSettings;
  readonly route: Route;
  readonly service: Service;
  /** When counting began. */
  readonly sinceMs: number;
  readonly limits: Limits;
  /** Left out of what the backend is asked for; empty if nothing is. */
  readonly strippedPrefix: string;
  readonly weights: Weights<Backend> | undefined;
  readonly rate: RateLimit | undefined;
  readonly concurrency: Concurrency | undefined;
  /** Who gets through during maintenance; undefined when there is none. */
  readonly maintenance: Networks | undefined;
  /** Undefined lets in everybody. */
  readonly gate: RouteGate | undefined;
  /** The value of Strict-Transport-Security. */
  readonly hsts: string | undefined;
  #figures: RouteFigures | undefined;

  /** `share` is the part of all requests that comes to this process, one of several workers. */
  constructor(
    route: Route,
    parts: {
      service: Service;
      nowMs: number;
      defaults: Timeouts;
      share: number;
      before: HttpRoute | undefined;
    },
  ) {
    const { http } = route;
    const { before } = parts;
    const hasSameLimits = before !== undefined && isDeepStrictEqual(before.settings.limits, http.limits);
    this.route = route;
    this.id = route.id;
    this.domain = route.domain ?? '';
    this.path = route.path;
    this.createdAt = route.createdAt;
    this.settings = http;
    this.service = parts.service;
    this.sinceMs = before?.sinceMs ?? parts.nowMs;
    // Whatever is under way at the one before has made them already.
    this.#figures = before === undefined ? undefined : before.#figures;
    this.limits = limitsOf(http, parts.defaults);
    this.strippedPrefix = http.stripPath ? prefixOf(route.path) : '';
    this.weights = http.weights.length === 0 ? undefined : new Weights(http.weights, route.leavingReleaseId);
    // Who has used up a limit has done so whatever else of the route changes.
    this.rate = hasSameLimits ? before.rate : rateOf(http.limits);
    this.concurrency = hasSameLimits ? before.concurrency : concurrencyOf(http.limits, parts.share);
    const { maintenance } = unguarded(http);
    this.maintenance = maintenance === undefined ? undefined : new Networks(maintenance.allow);
    this.gate = gateOf(route, before);
    const { hstsSeconds, hstsSubdomains } = http.https;
    if (hstsSeconds > 0) this.hsts = `max-age=${hstsSeconds}${hstsSubdomains ? '; includeSubDomains' : ''}`;
  }

  /** Another part of all requests comes to this process from now on. */
  takeShare(share: number): void {
    const { connections } = this.settings.limits;
    if (this.concurrency !== undefined && connections !== undefined)
      this.concurrency.total = partOf(connections, share);
  }

  /** Made when the first request comes: most of very many routes have none. */
  get figures(): RouteFigures {
    return (this.#figures ??= new RouteFigures(this.sinceMs));
  }

  get hasFigures(): boolean {
    return this.#figures !== undefined;
  }

  /** What a path can hold and a cookie's attribute cannot is left to the whole host. */
  get cookiePath(): string {
    return /^[\x21-\x3a\x3c-\x7e]+$/.test(this.path) ? this.path : '/';
  }
}

/** Whoever was let in need not be looked at again while nothing changes of who may come in, whatever else of the route does. */
function gateOf({ appId, http: { access } }: Route, before: HttpRoute | undefined): RouteGate | undefined {
  if (access === undefined) return undefined;
  const isSame = before?.gate !== undefined && isDeepStrictEqual(before.settings.access, access);
  return isSame ? before.gate : new RouteGate(access, appId);
}

/** Nearly all routes have the same: many routes are to cost little. */
const plainLimits = new WeakMap<Timeouts, Limits>();

function limitsOf(http: HttpSettings, defaults: Timeouts): Limits {
  const { limits, timeouts, bufferBytes } = http;
  const isPlain = Object.keys(timeouts).length === 0 && limits.bodyBytes === undefined && bufferBytes === 0;
  const known = isPlain ? plainLimits.get(defaults) : undefined;
  if (known !== undefined) return known;
  const all = Object.freeze({
    dialMs: defaults.dialMs,
    firstByteMs: timeouts.firstByteMs ?? defaults.firstByteMs,
    idleMs: timeouts.idleMs ?? defaults.idleMs,
    totalMs: timeouts.totalMs ?? 0,
    bodyBytes: limits.bodyBytes ?? 0,
    bufferBytes,
  });
  if (isPlain) plainLimits.set(defaults, all);
  return all;
}

/**
 * What a client may is whole at every worker: nearly all of a client's requests come over one connection, to one of them,
 * and half of what the route allows would be refused wrongly.
 */
function rateOf({ requestsPerSecond, burst }: HttpSettings['limits']): RateLimit | undefined {
  if (requestsPerSecond === undefined) return undefined;
  return new RateLimit({ perSecond: requestsPerSecond, burst: burst ?? Math.ceil(requestsPerSecond) });
}

/** All requests together come evenly to all workers. */
function concurrencyOf(limits: HttpSettings['limits'], share: number): Concurrency | undefined {
  const { connectionsPerClient, connections } = limits;
  if (connectionsPerClient === undefined && connections === undefined) return undefined;
  const total = connections === undefined ? undefined : partOf(connections, share);
  return new Concurrency({ perClient: connectionsPerClient, total });
}

function partOf(connections: number, share: number): number {
  return Math.max(1, Math.round(connections * share));
}
