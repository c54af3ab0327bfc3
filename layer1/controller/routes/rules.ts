/** Do a route's settings fit each other and where it is? What becomes of them by a change? Pure. */
import { isIP } from 'node:net';
import { FlynnError } from '@flynn/kit/errors';
import { refusal } from '@flynn/resource/record';
import type { FieldIssue } from '@flynn/resource/type';
import { atField } from '../generic/fields.ts';
import { merged } from '../generic/difference.ts';
import { normalizeDomain } from './address.ts';
import { guarded, unguarded } from './guard.ts';
import { httpSettingsSchema, tcpSettingsSchema } from './settings.ts';
import type { HttpChange, HttpSettings, RouteAccess, TcpChange, TcpSettings } from './settings.ts';

export type RouteRules = {
  type: 'http' | 'tcp';
  domain?: string | undefined;
  path: string;
  port?: number | undefined;
  http: HttpSettings;
  tcp: TcpSettings;
};

/** Of an object in the store, with everything around it: etcd takes 1.5 MB. */
const maxPagesLength = 262_144;
const maxUsers = 50;

export function routeIssues(route: RouteRules): FieldIssue[] {
  const found = route.type === 'http' ? httpIssues(route) : tcpIssues(route);
  return found.flatMap(([isWrong, path, message]) => (isWrong ? [{ path, message }] : []));
}

type Rule = readonly [isWrong: boolean, path: string, message: string];

function httpIssues({ http, tcp, domain, path }: RouteRules): Rule[] {
  const { weights, limits, timeouts, https } = http;
  const releases = new Set(weights.map(({ release }) => release));
  const pagesLength = Object.values(http.pages).reduce((sum, page) => sum + page.length, 0);
  return [
    [!isEmpty(tcp, tcpSettingsSchema.parse({})), 'tcp', 'these settings are for tcp routes, and this is an http route'],
    [http.stripPath && path === '/', 'http.stripPath', 'the route has no path that could be left out'],
    [http.leader && http.sticky, 'http.sticky', 'all requests go to the leader already: take one of the two'],
    [http.leader && weights.length > 0, 'http.weights', 'all requests go to the leader already: take one of the two'],
    [releases.size < weights.length, 'http.weights', 'a release is there twice'],
    [
      weights.length > 0 && weights.every(({ weight }) => weight === 0),
      'http.weights',
      'nobody would get any request: give at least one release more than 0',
    ],
    [
      http.releaseAffinity && weights.length === 0,
      'http.releaseAffinity',
      'without weights there is nothing to choose between',
    ],
    [
      limits.burst !== undefined && limits.requestsPerSecond === undefined,
      'http.limits.burst',
      'it says how far requestsPerSecond may be passed for a moment: set that too',
    ],
    [
      limits.connections !== undefined && (limits.connectionsPerClient ?? 0) > limits.connections,
      'http.limits.connectionsPerClient',
      'it is more than connections allows to all together',
    ],
    [
      timeouts.totalMs !== undefined && (timeouts.firstByteMs ?? 0) > timeouts.totalMs,
      'http.timeouts.firstByteMs',
      'it is longer than totalMs, the time for the whole',
    ],
    [
      https.hstsSeconds > 0 && !https.redirect,
      'http.https.hstsSeconds',
      'it tells browsers to use https alone: turn the redirect to https on too',
    ],
    [
      https.hstsSubdomains && https.hstsSeconds === 0,
      'http.https.hstsSubdomains',
      'it says for whom hstsSeconds counts: set that too',
    ],
    [
      http.canonicalHost !== undefined && http.canonicalHost === domain,
      'http.canonicalHost',
      'that is the route’s own domain: requests would be sent round in circles',
    ],
    [
      pagesLength > maxPagesLength,
      'http.pages',
      `together they have ${pagesLength} characters, more than ${maxPagesLength}`,
    ],
    ...addressRules('http.maintenance.allow', unguarded(http).maintenance?.allow ?? []),
    ...(http.access === undefined ? [] : accessRules(http.access)),
  ];
}

function accessRules({ users, allow }: RouteAccess): Rule[] {
  const names = Object.keys(users);
  const path = 'http.access';
  return [
    [
      names.length === 0 && allow.length === 0,
      path,
      'nobody could come in: name a user or an address, or let everybody in with flynn route update --no-access',
    ],
    [names.length > maxUsers, `${path}.users`, `there are ${names.length} users, more than ${maxUsers}`],
    ...names.map((name): Rule => [
      users[name]?.hash === undefined,
      `${path}.users.${name}`,
      'it has no password here: flynn route update PLACE --user NAME asks for one, flynn route password-hash makes a hash for files',
    ]),
    ...addressRules(`${path}.allow`, allow),
  ];
}

function addressRules(path: string, texts: readonly string[]): Rule[] {
  return texts.map((text, index): Rule => [
    !isAddress(text),
    `${path}.${index}`,
    `"${text}" is no address and no network: write 203.0.113.7 or 203.0.113.0/24`,
  ]);
}

function tcpIssues({ http }: RouteRules): Rule[] {
  return [
    [
      !isEmpty(http, httpSettingsSchema.parse({})),
      'http',
      'these settings are for http routes, and this is a tcp route',
    ],
  ];
}

function isEmpty(settings: object, defaults: object): boolean {
  return JSON.stringify(settings) === JSON.stringify(defaults);
}

function isAddress(text: string): boolean {
  const [, address = '', length] = /^([^/]+)(?:\/(\d{1,3}))?$/.exec(text) ?? [];
  const family = isIP(address);
  return family !== 0 && Number(length ?? 0) <= (family === 4 ? 32 : 128);
}

/** In its canonical form. Throws `invalid` at the field that is wrong. */
export function changedHttp(current: HttpSettings, change: HttpChange): HttpSettings {
  const host = change.canonicalHost;
  const canonicalHost =
    host === undefined || host === null ? host : atField('route', 'http.canonicalHost', () => plainHost(host));
  return guarded(httpSettingsSchema.parse(merged(unguarded(current), given({ ...change, canonicalHost }))));
}

export function changedTcp(current: TcpSettings, change: TcpChange): TcpSettings {
  const name = change.serverName;
  const serverName =
    name === undefined || name === null ? name : atField('route', 'tcp.serverName', () => normalizeDomain(name));
  if (serverName === '*' || serverName?.startsWith('[') === true) {
    throw refusal('route', [
      { path: 'tcp.serverName', message: `clients do not ask for "${name}": write a host name` },
    ]);
  }
  return tcpSettingsSchema.parse(merged(current, given({ ...change, serverName })));
}

function plainHost(text: string): string {
  const host = normalizeDomain(text);
  if (host.startsWith('*'))
    throw new FlynnError('invalid', `"${text}" is many hosts: name the one to send requests to`);
  return host;
}

/** Without what is undefined, at any depth: that stays as it is. */
function given(value: object): object {
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, inner]): [string, unknown][] => {
      if (inner === undefined) return [];
      return [[name, isPlainObject(inner) ? given(inner) : inner]];
    }),
  );
}

function isPlainObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
