/** A route as it is used for each request: everything that can be worked out beforehand is. */
import { isDeepStrictEqual } from 'node:util';
import type { Route } from '@flynn/controller/model';
import type { HttpSettings } from '@flynn/controller/routes/settings';
import type { Backend } from '../backend.ts';
import type { Service } from '../backends.ts';
import type { Limits, Timeouts } from '../exchange.ts';
import type { RouteFigures } from './figures.ts';
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
  readonly figures: RouteFigures;
  readonly limits: Limits;
  /** Left out of what the backend is asked for; empty if nothing is. */
  readonly strippedPrefix: string;
  readonly weights: Weights<Backend> | undefined;
  readonly rate: RateLimit | undefined;
  readonly concurrency: Concurrency | undefined;
  /** Who gets through during maintenance; undefined when there is none. */
  readonly maintenance: Networks | undefined;
  /** The value of Strict-Transport-Security. */
  readonly hsts: string | undefined;
  readonly cookiePath: string;

  /** `share` is the part of a client's requests that comes to this process: 1 of its workers. */
  constructor(
    route: Route,
    parts: {
      service: Service;
      figures: RouteFigures;
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
    this.figures = parts.figures;
    this.limits = Object.freeze({
      dialMs: parts.defaults.dialMs,
      firstByteMs: http.timeouts.firstByteMs ?? parts.defaults.firstByteMs,
      idleMs: http.timeouts.idleMs ?? parts.defaults.idleMs,
      totalMs: http.timeouts.totalMs ?? 0,
      bodyBytes: http.limits.bodyBytes ?? 0,
      bufferBytes: http.bufferBytes,
    });
    this.strippedPrefix = http.stripPath ? prefixOf(route.path) : '';
    this.weights = http.weights.length === 0 ? undefined : new Weights(http.weights);
    // Who has used up a limit has done so whatever else of the route changes.
    this.rate = hasSameLimits ? before.rate : rateOf(http.limits, parts.share);
    this.concurrency = hasSameLimits ? before.concurrency : concurrencyOf(http.limits, parts.share);
    this.maintenance = http.maintenance === undefined ? undefined : new Networks(http.maintenance.allow);
    const { hstsSeconds, hstsSubdomains } = http.https;
    if (hstsSeconds > 0) this.hsts = `max-age=${hstsSeconds}${hstsSubdomains ? '; includeSubDomains' : ''}`;
    this.cookiePath = /^[\x21-\x3a\x3c-\x7e]+$/.test(route.path) ? route.path : '/';
  }
}

function rateOf(limits: HttpSettings['limits'], share: number): RateLimit | undefined {
  const { requestsPerSecond, burst } = limits;
  if (requestsPerSecond === undefined) return undefined;
  return new RateLimit({
    perSecond: requestsPerSecond * share,
    burst: Math.max(1, Math.round((burst ?? Math.ceil(requestsPerSecond)) * share)),
  });
}

function concurrencyOf(limits: HttpSettings['limits'], share: number): Concurrency | undefined {
  const { connectionsPerClient, connections } = limits;
  if (connectionsPerClient === undefined && connections === undefined) return undefined;
  const part = (limit: number | undefined) =>
    limit === undefined ? undefined : Math.max(1, Math.round(limit * share));
  return new Concurrency({ perClient: part(connectionsPerClient), total: part(connections) });
}
