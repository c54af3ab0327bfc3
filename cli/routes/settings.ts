/** What a route can be set to, as options of the command line and as text. */
import type { Route } from '@flynn/controller/model';
import type { HttpChange, TcpChange } from '@flynn/controller/routes/settings';
import { parseBytes, parseDurationMs, parseRate, parseWhole, usageError } from '../arguments.ts';
import { readNamed } from '../input-file.ts';
import type { Io } from '../io.ts';
import { askPasswords } from './passwords.ts';
import { formatBytes, formatDuration } from '../output.ts';

export type Change = { http?: HttpChange; tcp?: TcpChange };

type Setting = {
  type: 'http' | 'tcp';
  /** As commander takes it: `--limit-body <size>`. */
  flags: string;
  summary: string;
  /** Can be given several times. */
  isList?: boolean;
  /** What it is for, of the values given; undefined takes it back. */
  change: (values: readonly string[] | undefined, io: Io) => Change | Promise<Change>;
  /** As it was given; undefined is how it is without. */
  show: (route: Route) => string | undefined;
};

type HttpFlag = 'stripPath' | 'leader' | 'sticky' | 'releaseAffinity';

function flag(flags: string, summary: string, name: HttpFlag): Setting {
  return {
    type: 'http',
    flags,
    summary,
    change: (values) => ({ http: { [name]: values === undefined ? null : true } }),
    show: ({ http }) => (http[name] ? 'yes' : undefined),
  };
}

/** One that has one value. */
function value<T>(
  type: Setting['type'],
  [flags, summary]: readonly [string, string],
  read: (text: string) => T,
  change: (value: T | null) => Change,
  show: (route: Route) => string | undefined,
): Setting {
  return {
    type,
    flags,
    summary,
    change: (values) => change(values === undefined ? null : read(values[0] ?? '')),
    show,
  };
}

function limit(flags: readonly [string, string], name: 'burst' | 'connectionsPerClient' | 'connections'): Setting {
  const read = (text: string) => parseWhole(text, { what: 'a number of requests', min: 1, max: 1_000_000 });
  return value(
    'http',
    flags,
    read,
    (count) => ({ http: { limits: { [name]: count } } }),
    ({ http }) => http.limits[name]?.toString(),
  );
}

function timeout(flags: readonly [string, string], name: 'firstByteMs' | 'idleMs' | 'totalMs'): Setting {
  return value(
    'http',
    flags,
    parseDurationMs,
    (ms) => ({ http: { timeouts: { [name]: ms } } }),
    ({ http }) => optional(http.timeouts[name], formatDuration),
  );
}

function optional<T>(one: T | undefined, text: (value: T) => string): string | undefined {
  return one === undefined ? undefined : text(one);
}

function oneOf<const T extends string>(names: readonly T[]): (text: string) => T {
  return (text) => {
    const found = names.find((name) => name === text);
    if (found !== undefined) return found;
    throw usageError(`"${text}" is not one of ${names.join(', ')}`);
  };
}

const asIs = (text: string): string => text;
const yearMs = 31_536_000_000;

export const settings: readonly Setting[] = [
  flag('--strip-path', 'backends are asked without the route’s path', 'stripPath'),
  flag('--leader', 'only the service’s leader answers', 'leader'),
  flag('--sticky', 'a client stays with its backend, by a cookie', 'sticky'),
  {
    type: 'http',
    flags: '--weight <release=share>',
    summary: 'a release’s share of the requests, as v3=10; several times',
    isList: true,
    change: (values) => ({ http: { weights: values === undefined ? null : values.map(readWeight) } }),
    show: ({ http, leavingReleaseId }) =>
      http.weights
        .map(({ release, weight }) => `${release}=${weight}${release === leavingReleaseId ? ' (leaving)' : ''}`)
        .join(' ') || undefined,
  },
  flag('--release-affinity', 'with weights: a client stays with its release', 'releaseAffinity'),
  value(
    'http',
    ['--protocol <protocol>', 'what backends speak: http1 or h2c'],
    oneOf(['http1', 'h2c']),
    (protocol) => ({ http: { protocol } }),
    ({ http }) => (http.protocol === 'http1' ? undefined : http.protocol),
  ),
  value(
    'http',
    ['--limit-body <size>', 'of a request, as 10MB'],
    parseBytes,
    (bodyBytes) => ({ http: { limits: { bodyBytes } } }),
    ({ http }) => optional(http.limits.bodyBytes, formatBytes),
  ),
  value(
    'http',
    ['--limit-rate <rate>', 'requests of one client, as 20/s or 300/m'],
    parseRate,
    (requestsPerSecond) => ({ http: { limits: { requestsPerSecond } } }),
    ({ http }) => optional(http.limits.requestsPerSecond, (rate) => `${Number(rate.toFixed(3))}/s`),
  ),
  limit(['--limit-burst <count>', 'so many at once before the rate counts'], 'burst'),
  limit(['--limit-client-connections <count>', 'requests of one client at the same time'], 'connectionsPerClient'),
  limit(['--limit-connections <count>', 'requests of all at the same time'], 'connections'),
  timeout(['--timeout-first-byte <time>', 'to the first byte of an answer (else 30s)'], 'firstByteMs'),
  timeout(['--timeout-idle <time>', 'without a byte either way (else 55s)'], 'idleMs'),
  timeout(['--timeout-total <time>', 'for the whole'], 'totalMs'),
  value(
    'http',
    ['--buffer <size>', 'so much of a request is collected before a backend is taken'],
    parseBytes,
    (bufferBytes) => ({ http: { bufferBytes } }),
    ({ http }) => (http.bufferBytes === 0 ? undefined : formatBytes(http.bufferBytes)),
  ),
  {
    type: 'http',
    flags: '--https-redirect',
    summary: 'plain requests are sent on to https',
    change: (values) => ({ http: { https: { redirect: values === undefined ? null : true } } }),
    show: ({ http }) => (http.https.redirect ? 'yes' : undefined),
  },
  value(
    'http',
    ['--hsts [time]', 'browsers remember for so long to use https alone (365d)'],
    (text) => Math.round((text === '' ? yearMs : parseDurationMs(text)) / 1_000),
    (hstsSeconds) => ({ http: { https: { hstsSeconds } } }),
    ({ http }) => (http.https.hstsSeconds === 0 ? undefined : formatDuration(http.https.hstsSeconds * 1_000)),
  ),
  {
    type: 'http',
    flags: '--hsts-subdomains',
    summary: 'and for all host names below it',
    change: (values) => ({ http: { https: { hstsSubdomains: values === undefined ? null : true } } }),
    show: ({ http }) => (http.https.hstsSubdomains ? 'yes' : undefined),
  },
  value(
    'http',
    ['--canonical-host <domain>', 'requests are sent on to this host'],
    asIs,
    (canonicalHost) => ({ http: { canonicalHost } }),
    ({ http }) => http.canonicalHost,
  ),
  {
    type: 'http',
    flags: '--user <name>',
    summary: 'only who knows a password gets in: asks for the one of this user; several times',
    isList: true,
    change: async (values, io) => ({
      http: { access: { users: values === undefined ? null : await askPasswords(values, io) } },
    }),
    show: ({ http }) => Object.keys(http.access?.users ?? {}).join(' ') || undefined,
  },
  {
    type: 'http',
    flags: '--allow <network>',
    summary: 'only who is at this address or in this network gets in; several times',
    isList: true,
    change: (values) => ({ http: { access: { allow: values === undefined ? null : [...values] } } }),
    show: ({ http }) => http.access?.allow.join(' ') || undefined,
  },
  value(
    'http',
    ['--access <rule>', 'with users and addresses: all (both are needed) or any of them'],
    oneOf(['all', 'any']),
    (needs) => ({ http: { access: needs === null ? null : { needs } } }),
    ({ http }) => (http.access?.needs === 'any' ? 'any' : undefined),
  ),
  {
    type: 'http',
    flags: '--page <status=file>',
    summary: 'HTML for errors, as 503=down.html, 5xx=…, maintenance=…; several times',
    isList: true,
    change: async (values, io) => ({ http: { pages: values === undefined ? null : await readPages(values, io) } }),
    show: ({ http }) => Object.keys(http.pages).toSorted().join(' ') || undefined,
  },
  value(
    'tcp',
    ['--server-name <name>', 'clients ask for this name by TLS; several routes may share the port'],
    asIs,
    (serverName) => ({ tcp: { serverName } }),
    ({ tcp }) => tcp.serverName,
  ),
  value(
    'tcp',
    ['--proxy-protocol <version>', 'backends are told the client’s address: v1 or v2'],
    oneOf(['v1', 'v2']),
    (proxyProtocol) => ({ tcp: { proxyProtocol } }),
    ({ tcp }) => tcp.proxyProtocol,
  ),
  value(
    'tcp',
    ['--idle <time>', 'a connection without a byte either way ends'],
    parseDurationMs,
    (idleMs) => ({ tcp: { idleMs } }),
    ({ tcp }) => optional(tcp.idleMs, formatDuration),
  ),
];

/** The one that both types have: for tcp routes. */
const tcpLeader: Setting = {
  type: 'tcp',
  flags: '--leader',
  summary: 'only the service’s leader answers',
  change: (values) => ({ tcp: { leader: values === undefined ? null : true } }),
  show: ({ tcp }) => (tcp.leader ? 'yes' : undefined),
};

export function settingsFor(type: 'http' | 'tcp'): readonly Setting[] {
  const own = settings.filter((one) => one.type === type);
  return type === 'tcp' ? [tcpLeader, ...own] : own;
}

/** `limit-body`. */
export function nameOf({ flags }: Pick<Setting, 'flags'>): string {
  return flags.split(' ', 1)[0]?.slice(2) ?? '';
}

/** As commander calls it: `limitBody`. */
function keyOf(setting: Setting): string {
  return nameOf(setting).replaceAll(/-(.)/g, (_, letter: string) => letter.toUpperCase());
}

export type SettingOptions = Readonly<Record<string, unknown>>;
type Row = readonly [flags: string, summary: string, initial?: string[]];

/** With `isChange` each can be taken back too: `--no-limit-body`. */
export function optionRows(list: readonly Setting[], { isChange }: { isChange: boolean }): Record<string, Row> {
  return Object.fromEntries(
    list.flatMap((setting): [string, Row][] => {
      const { flags, summary, isList = false } = setting;
      const row: Row = isList ? [flags, summary, []] : [flags, summary];
      const key = keyOf(setting);
      return isChange
        ? [
            [key, row],
            [`no ${key}`, [`--no-${nameOf(setting)}`, '']],
          ]
        : [[key, row]];
    }),
  );
}

/** Throws a usage error for options of the other type of route. */
export async function changeOf(type: 'http' | 'tcp', options: SettingOptions, io: Io): Promise<Change> {
  const own = settingsFor(type);
  const changes: Change[] = [];
  const keys = new Set(own.map(keyOf));
  for (const other of settings) {
    if (keys.has(keyOf(other)) || givenOf(options[keyOf(other)]) === undefined) continue;
    throw usageError(
      `--${nameOf(other)} is for ${other.type} routes, and this is ${type === 'http' ? 'an' : 'a'} ${type} route`,
    );
  }
  for (const setting of own) {
    const given = givenOf(options[keyOf(setting)]);
    if (given === undefined) continue;
    changes.push(await setting.change(given === 'none' ? undefined : given, io));
  }
  return changes.reduce(joined, {});
}

/** What commander has for an option: nothing, `--no-…`, the flag alone, a value, or values. */
function givenOf(option: unknown): readonly string[] | 'none' | undefined {
  if (option === false) return 'none';
  if (option === true) return [''];
  if (typeof option === 'string') return [option];
  return Array.isArray(option) && option.length > 0 ? option.map(String) : undefined;
}

function joined(one: Change, other: Change): Change {
  const http = { ...one.http, ...other.http };
  const access = joinedAccess(one.http?.access, other.http?.access);
  if (access !== undefined) http.access = access;
  for (const group of ['limits', 'timeouts', 'https'] as const) {
    const both = { ...one.http?.[group], ...other.http?.[group] };
    if (Object.keys(both).length > 0) Object.assign(http, { [group]: both });
  }
  const tcp = { ...one.tcp, ...other.tcp };
  return {
    ...(Object.keys(http).length > 0 ? { http } : {}),
    ...(Object.keys(tcp).length > 0 ? { tcp } : {}),
  };
}

type AccessChange = HttpChange['access'];

/** Null lets in everybody, whoever is taken away besides. */
function joinedAccess(one: AccessChange, other: AccessChange): AccessChange {
  if (one !== null && other !== null) return one === undefined ? other : { ...one, ...other };
  const both = { ...one, ...other };
  if (Object.values(both).every((part) => part === null)) return null;
  throw usageError('--no-access lets in everybody: it goes with no --user, --allow or --access');
}

function readWeight(text: string): { release: string; weight: number } {
  const [, release, share] = /^([^=]+)=(\d{1,4})$/.exec(text) ?? [];
  if (release !== undefined && share !== undefined) return { release, weight: Number(share) };
  throw usageError(`"${text}" is no share: write RELEASE=NUMBER, as in v3=10`);
}

async function readPages(values: readonly string[], io: Io): Promise<Record<string, string>> {
  const pages: Record<string, string> = {};
  for (const text of values) {
    const [, name, file] = /^([45]\d\d|[45]xx|maintenance)=(.+)$/.exec(text) ?? [];
    if (name === undefined || file === undefined) {
      throw usageError(`"${text}" is no page: write 503=FILE, 5xx=FILE or maintenance=FILE`);
    }
    pages[name] = await readNamed(io, file);
  }
  return pages;
}

/** Each as one would write it: `limit-body=10MB`, `sticky`. */
export function settingTexts(route: Route): string[] {
  const allowed = route.http.maintenance;
  const maintenance =
    allowed === undefined
      ? []
      : [['maintenance', allowed.allow.length > 0 ? `but for ${allowed.allow.join(' ')}` : 'yes'] as const];
  const set = settingsFor(route.type).flatMap((setting) => {
    const text = setting.show(route);
    return text === undefined ? [] : [[nameOf(setting), text] as const];
  });
  return [...maintenance, ...set].map(([name, text]) => (text === 'yes' ? name : `${name}=${text}`));
}
