/** An app as a file tells it: with its env, processes, counts, limits and routes. What does it become by a file? Pure. */
import { appName, envName, processType, serviceName } from '@flynn/kit/names';
import { refusal } from '@flynn/resource/record';
import type { FieldIssue } from '@flynn/resource/type';
import { z } from 'zod';
import { amountOf, bytesOf } from '../processes/amounts.ts';
import { serviceNameOf } from '../processes/compile.ts';
import { fieldOf, isEqual } from './difference.ts';
import { envSchema } from '../processes/env.ts';
import { metaSchema } from '../model.ts';
import { processSchema } from '../processes/process.ts';
import type { Process } from '../processes/process.ts';
import { withReview } from '../apps/review-meta.ts';
import { normalizeDomain, normalizePath, routePlace } from '../routes/address.ts';
import { httpChangeSchema, tcpChangeSchema } from '../routes/settings.ts';
import { changedSettings, defaultSettings, shownSettings } from './route-settings.ts';
import type { RouteSettings } from './route-settings.ts';

/** The fields of a process without what they are if nobody says: what a file leaves out stays as it is. */
const processFields = Object.fromEntries(
  Object.entries(processSchema.shape).map(([name, field]): [string, z.ZodType] => [
    name,
    (field instanceof z.ZodDefault ? field.unwrap() : field).optional(),
  ]),
);

const routeSpec = z.strictObject({
  domain: z.string().optional(),
  path: z.string().optional(),
  port: z.int().min(1).max(65_535).optional(),
  /** With a port that several share: the name that clients ask for by TLS. */
  serverName: z.string().optional(),
  /** Default: APP-web. */
  service: serviceName.optional(),
  /** How it answers. What is left out stays, null takes a setting back. */
  http: httpChangeSchema.optional(),
  tcp: tcpChangeSchema.omit({ serverName: true }).optional(),
});

export const wantedAppSchema = z.strictObject({
  meta: metaSchema.optional(),
  deployTimeoutMs: z.int().min(1_000).max(3_600_000).optional(),
  /** An image to run; without one the app runs what is pushed. */
  image: z.string().min(1).optional(),
  /** All of it: a variable that is not here goes. */
  env: z.record(envName, z.string()).pipe(envSchema).optional(),
  /** Types that are not here stay as they are. */
  processes: z
    .record(
      processType,
      z.strictObject({
        count: z.int().min(0).max(10_000).optional(),
        /** `512MB` or `2GB`: memoryBytes and tempDiskBytes for people. */
        memory: amountOf('memory').optional(),
        disk: amountOf('disk').optional(),
        ...processFields,
      }),
    )
    .optional(),
  /** All of them: a route that is not here goes. */
  routes: z.array(routeSpec).optional(),
});
export type WantedApp = z.output<typeof wantedAppSchema>;

/** Where it is, and who answers. */
export type RouteEntry = { domain?: string; path?: string; port?: number; serverName?: string; service: string };
/** The server name is the entry's alone. */
export type RouteState = RouteEntry & { settings: RouteSettings };

export type AppState = {
  meta: Readonly<Record<string, string>>;
  deployTimeoutMs: number;
  image?: string;
  env: Readonly<Record<string, string>>;
  processes: Readonly<Record<string, Process>>;
  counts: Readonly<Record<string, number>>;
  routes: readonly RouteState[];
};

/** Where it answers: two routes of one place cannot exist. */
export function placeOf({ domain, path = '/', port, serverName }: RouteEntry): string {
  return routePlace({ type: port === undefined ? 'http' : 'tcp', domain, path, port, tcp: { serverName } });
}

/** As a file would have it: what is as it is without saying is left out. */
export function specOfApp(state: AppState): Record<string, unknown> {
  const { processes, counts, routes, image, ...rest } = state;
  return {
    ...rest,
    ...(image === undefined ? {} : { image }),
    processes: Object.fromEntries(
      Object.entries(processes).map(([type, process]) => [
        type,
        { count: fieldOf(counts, type) ?? 0, ...withoutDefaults(process) },
      ]),
    ),
    routes: routes.toSorted((a, b) => (placeOf(a) < placeOf(b) ? -1 : 1)).map(shownRoute),
  };
}

function shownRoute({ settings, ...entry }: RouteState): object {
  return { ...entry, ...shownSettings(settings) };
}

const defaults: Readonly<Record<string, unknown>> = processSchema.parse({});

function withoutDefaults(process: Process): Record<string, unknown> {
  return Object.fromEntries(Object.entries(process).filter(([name, value]) => !isEqual(value, defaults[name])));
}

/** Throws `invalid` with the paths of what is wrong. */
export function nextState(name: string, before: AppState, wanted: WantedApp): AppState {
  const wrong = appName.safeParse(name).error?.issues[0];
  if (wrong !== undefined) throw refusal(`app ${name}`, [{ path: 'name', message: wrong.message }]);
  const issues: FieldIssue[] = [];
  const processes: Record<string, Process> = { ...before.processes };
  const counts: Record<string, number> = { ...before.counts };
  for (const [type, { count, memory, disk, ...fields }] of Object.entries(wanted.processes ?? {})) {
    const given = Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
    if (memory !== undefined && 'memoryBytes' in given) {
      issues.push({ path: `processes.${type}.memory`, message: 'memory and memoryBytes are the same: give one' });
    }
    if (disk !== undefined && 'tempDiskBytes' in given) {
      issues.push({ path: `processes.${type}.disk`, message: 'disk and tempDiskBytes are the same: give one' });
    }
    const limits = {
      ...(memory === undefined ? {} : { memoryBytes: bytesOf(memory) }),
      ...(disk === undefined ? {} : { tempDiskBytes: bytesOf(disk) }),
    };
    processes[type] = processSchema.parse({ ...fieldOf(before.processes, type), ...given, ...limits });
    counts[type] = count ?? fieldOf(before.counts, type) ?? (type === 'web' ? 1 : 0);
  }
  const known = new Map(before.routes.map((route) => [placeOf(route), route.settings]));
  const routes = wanted.routes?.map((route, index): RouteState => {
    const entry = routeEntry(name, route, `routes.${index}`, issues);
    const { path = '/', ...place } = entry;
    const where = { type: entry.port === undefined ? 'http' : 'tcp', path, ...place } as const;
    const next = changedSettings(where, known.get(placeOf(entry)) ?? defaultSettings, route);
    issues.push(...next.issues.map(({ path: inner, message }) => ({ path: `routes.${index}.${inner}`, message })));
    return { ...entry, settings: next.settings };
  });
  for (const [index, route] of (routes ?? []).entries()) {
    const first = routes?.findIndex((other) => placeOf(other) === placeOf(route));
    if (first !== index) issues.push({ path: `routes.${index}`, message: `${placeOf(route)} is there twice` });
  }
  if (issues.length > 0) throw refusal(`app ${name}`, issues);
  const image = wanted.image ?? before.image;
  return {
    meta: wanted.meta === undefined ? before.meta : withReview(before.meta, wanted.meta),
    deployTimeoutMs: wanted.deployTimeoutMs ?? before.deployTimeoutMs,
    ...(image === undefined ? {} : { image }),
    env: wanted.env ?? before.env,
    processes,
    counts,
    routes: routes ?? before.routes,
  };
}

function routeEntry(app: string, route: z.output<typeof routeSpec>, path: string, issues: FieldIssue[]): RouteEntry {
  const service = route.service ?? serviceNameOf(app, 'web');
  if (route.port !== undefined) {
    if (route.domain !== undefined || route.path !== undefined) {
      issues.push({ path, message: 'a route has a domain (and a path), or a port' });
    }
    const { serverName } = route;
    if (serverName === undefined) return { port: route.port, service };
    return {
      port: route.port,
      serverName: tried(issues, `${path}.serverName`, () => normalizeDomain(serverName)),
      service,
    };
  }
  if (route.serverName !== undefined) {
    issues.push({ path: `${path}.serverName`, message: 'it tells routes of one port apart: say which port' });
  }
  if (route.domain === undefined)
    issues.push({ path, message: 'a route has a domain, like shop.example.com, or a port' });
  return {
    domain: tried(issues, `${path}.domain`, () => normalizeDomain(route.domain ?? 'missing')),
    path: tried(issues, `${path}.path`, () => normalizePath(route.path ?? '/')),
    service,
  };
}

function tried(issues: FieldIssue[], path: string, read: () => string): string {
  try {
    return read();
  } catch (error) {
    issues.push({ path, message: error instanceof Error ? error.message : String(error) });
    return '';
  }
}
