/**
 * The last known routes and backends in a file, for a router that starts while controller or discovery are away. Each is
 * used until the live one has spoken, and not a moment longer.
 *
 * The file is lines of JSON: what it is, then one route or service each, then how many there were.
 */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { instanceSchema } from '@flynn/discovery/api';
import type { Instance } from '@flynn/discovery/api';
import type { DiscoveryClient } from '@flynn/discovery/client';
import type { ServiceSet } from '@flynn/discovery/service-set';
import type { Route } from '@flynn/controller/model';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { z } from 'zod';
import type { RouteSink } from './feed.ts';
import { Keeping, KeptFile } from './kept-file.ts';
import { readRoute } from './read-route.ts';

const headSchema = z.object({
  format: z.literal(1),
  /** Of the cluster: an address means something only there. */
  cluster: z.string(),
  /** Of the machine's start: after another one the same addresses may be other jobs'. */
  boot: z.string(),
  savedMs: z.number(),
  /** Of which services discovery told nothing, and since when: their backends are as of that, all others as of `savedMs`. */
  silentSinceMs: z.record(z.string(), z.number()).optional(),
  /** Of the router that wrote this. */
  release: z.string().optional(),
  /** Of the routes, for going on from there: by the same release alone. Another one understands what this one left out. */
  revision: z.string().optional(),
});
const serviceSchema = z.object({
  service: z.string(),
  instances: z.array(instanceSchema),
  leader: z.string().optional(),
});
const tailSchema = z.object({ lines: z.int() });
const anyLine = z.record(z.string(), z.unknown());

type Origin = Pick<z.output<typeof headSchema>, 'cluster' | 'boot' | 'release'>;
type Known = { instances: readonly Instance[]; leader: string | undefined };
type Watched = {
  signal: AbortSignal;
  known: () => Known;
  set: Pick<ServiceSet, 'silentSinceMs'>;
  isLive: () => boolean;
};
type Content = { savedMs: number; revision: string | undefined; routes: Route[]; services: Map<string, Known> };
type Discovery = Pick<DiscoveryClient, 'openServiceSet'>;

/** Where backends are changes all the time: older ones are rather other jobs by now. */
const backendsMaxAgeMs = 3_600_000;
/** Between two writes. */
const restMs = 5_000;
/** What nobody changes for long is none the less true: the file says until when it was known to be. */
const renewMs = backendsMaxAgeMs / 4;

/** In the folder that routers of a host share. */
export const tableFile = 'table.jsonl';

export type RememberedOptions = {
  file: string;
  /** The cluster's key. */
  key: string;
  /** This router's own, if it is of one. */
  release?: string | undefined;
  log: Logger;
  now?: () => number;
  /** What tells one start of the machine from the next. */
  boot?: () => Promise<string>;
  restMs?: number;
  renewMs?: number;
  /** False leaves the file as it is. Default true. */
  writes?: boolean;
};

/** INVARIANT. What comes from the file is never put in the place of what came from the controller or discovery. */
export class RememberedTable implements RouteSink {
  readonly #options: Required<RememberedOptions>;
  readonly #file: KeptFile;
  readonly #head: Origin;
  readonly #routes = new Map<string, Route>();
  readonly #services = new Map<string, Watched>();
  readonly #saved: Content | undefined;
  readonly #standIns = new Set<string>();
  #revision: () => string | undefined = () => undefined;
  #isLive = false;
  readonly #keeping = new Keeping();

  private constructor(options: Required<RememberedOptions>, head: Origin, saved?: Content) {
    this.#options = options;
    this.#file = new KeptFile(options.file);
    this.#head = head;
    this.#saved = saved;
  }

  /** A file that cannot be used is as good as none, and told. */
  static async open(given: RememberedOptions): Promise<RememberedTable> {
    const options = {
      now: Date.now,
      boot: readBoot,
      restMs,
      renewMs,
      writes: true,
      ...given,
      release: given.release ?? '',
    };
    const cluster = createHash('sha256').update(`flynn router table: ${options.key}`).digest('hex');
    const head = { cluster, boot: await options.boot(), release: options.release };
    const file = new KeptFile(options.file);
    await file.clean(options.now(), options.log);
    try {
      return new RememberedTable(options, head, await load(file, head, options));
    } catch (error) {
      options.log.warn({ err: error }, 'the last known routes cannot be used');
      return new RememberedTable(options, head);
    }
  }

  /** Of the file, to begin with; undefined if there is none. */
  get routes(): readonly Route[] | undefined {
    return this.#saved?.routes;
  }

  get revision(): string | undefined {
    return this.#saved?.revision;
  }

  /** For the status: when what is in use was saved; undefined once everything is live. */
  get inUse(): { savedAt: string; routes: boolean; services: string[] } | undefined {
    const saved = this.#saved;
    if (saved === undefined || (this.#isLive && this.#standIns.size === 0)) return undefined;
    return { savedAt: new Date(saved.savedMs).toISOString(), routes: !this.#isLive, services: [...this.#standIns] };
  }

  /** The controller has spoken; `revision` tells up to where. */
  live(revision: () => string | undefined): void {
    this.#isLive = true;
    this.#revision = revision;
  }

  replace(routes: readonly Route[]): void {
    this.#routes.clear();
    for (const route of routes) this.#routes.set(route.id, route);
    this.#keeping.changed();
  }

  set(route: Route): void {
    this.#routes.set(route.id, route);
    this.#keeping.changed();
  }

  remove(id: string): void {
    if (this.#routes.delete(id)) this.#keeping.changed();
  }

  /** The same, but a service that discovery has not told is as it was last. */
  filling(discovery: Discovery): Discovery {
    return {
      openServiceSet: async (service, options) => {
        const { signal } = options;
        const set = await discovery.openServiceSet(service, options);
        const last = this.#saved?.services.get(service);
        let isLive = await isSettled(set.ready);
        const known = (): Known =>
          isLive || last === undefined ? { instances: set.instances, leader: set.leader?.id } : last;
        if (!isLive && last !== undefined) this.#standIns.add(service);
        this.#services.set(service, { signal, known, set, isLive: () => isLive });
        this.#keeping.changed();
        const note = (): void => {
          isLive = true;
          this.#standIns.delete(service);
          this.#keeping.changed();
        };
        set.onChange(note);
        const forget = (): void => {
          if (this.#services.get(service)?.signal !== signal) return;
          this.#services.delete(service);
          this.#standIns.delete(service);
          this.#keeping.changed();
        };
        signal.addEventListener('abort', forget, { once: true });
        return {
          get instances() {
            return known().instances;
          },
          get leader() {
            const { instances, leader } = known();
            return instances.find(({ id }) => id === leader);
          },
          ready: set.ready,
          get silentSinceMs() {
            return set.silentSinceMs;
          },
          onChange: (listener) => set.onChange(listener),
        };
      },
    };
  }

  /** Writes what is known, soon after it changed. Of several processes that know the same, one is enough. */
  async run(signal: AbortSignal): Promise<void> {
    const { writes, restMs, renewMs, log } = this.#options;
    if (!writes) return;
    await this.#keeping.run({
      file: this.#file,
      what: 'the routes',
      restMs,
      renewMs,
      // What is only of the file needs no writing: its age would be lost.
      isDue: () => this.#isLive && this.#standIns.size === 0,
      lines: () => this.#lines(),
      log,
      signal,
    });
  }

  *#lines(): Generator<string> {
    // Of what was never told nothing is known.
    const told = [...this.#services].filter(([, { isLive }]) => isLive());
    const silentSinceMs = Object.fromEntries(told.map(([service, { set }]) => [service, set.silentSinceMs]));
    const savedMs = this.#options.now();
    yield JSON.stringify({ format: 1, ...this.#head, savedMs, silentSinceMs, revision: this.#revision() });
    const routes = [...this.#routes.values()];
    const services = told.map(([service, { known }]) => {
      const { instances, leader } = known();
      return { service, instances, leader };
    });
    for (const route of routes) yield JSON.stringify({ route });
    for (const service of services) yield JSON.stringify(service);
    yield JSON.stringify({ lines: routes.length + services.length });
  }
}

/** Within this turn: it was so before it was asked. */
async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  const yes = promise.then(
    () => true,
    () => false,
  );
  return Promise.race([yes, new Promise<boolean>((resolve) => setImmediate(resolve, false))]);
}

/** undefined if there is none. Throws what is wrong with it; what only this version cannot read is told, and left out. */
async function load(
  file: KeptFile,
  expected: Origin,
  { now, log }: Pick<Required<RememberedOptions>, 'now' | 'log'>,
): Promise<Content | undefined> {
  const lines = await file.read();
  if (lines === undefined) return undefined;
  let head: z.output<typeof headSchema> | undefined;
  let tail: z.output<typeof tailSchema> | undefined;
  const table = new Table();
  try {
    for await (const text of lines) {
      const json: unknown = JSON.parse(text);
      if (head === undefined) head = headSchema.parse(json);
      else if (tail !== undefined) throw new FlynnError('invalid', 'it goes on behind its end');
      else {
        tail = tailSchema.safeParse(json).data;
        if (tail === undefined) table.read(anyLine.parse(json));
      }
    }
  } catch (error) {
    throw new FlynnError('invalid', `${file.path} is not as it should be: ${messageOf(error)}`, { cause: error });
  }
  if (head === undefined || tail?.lines !== table.lines) {
    throw new FlynnError('invalid', `${file.path} has no end: it was cut off`);
  }
  if (head.cluster !== expected.cluster) throw new FlynnError('invalid', `${file.path} is of another cluster`);
  const { routes, services, problems } = table;
  const [problem] = problems;
  if (problem !== undefined) {
    const what = 'of the last known table some lines are of another version, and used as far as they can be read';
    log.error({ lines: problems.length, problem }, what);
  }
  const { savedMs, silentSinceMs = {} } = head;
  for (const service of services.keys()) {
    const ageMs = now() - (silentSinceMs[service] ?? savedMs);
    if (head.boot !== expected.boot || ageMs > backendsMaxAgeMs) services.delete(service);
  }
  // Going on from there would leave out for good what could not be read here.
  const isWhole = head.release === expected.release && problem === undefined;
  return { savedMs, revision: isWhole ? head.revision : undefined, routes, services };
}

/** What is made of the lines of a file that another version may have written. */
class Table {
  readonly routes: Route[] = [];
  readonly services = new Map<string, Known>();
  readonly problems: string[] = [];
  lines = 0;

  read(line: z.output<typeof anyLine>): void {
    this.lines += 1;
    if ('route' in line) {
      const { route, problem } = readRoute(line.route);
      if (route !== undefined) this.routes.push(route);
      if (problem !== undefined) this.problems.push(problem);
      return;
    }
    const { data, error } = serviceSchema.safeParse(line);
    if (data === undefined) this.problems.push(z.prettifyError(error));
    else this.services.set(data.service, { instances: data.instances, leader: data.leader });
  }
}

/** The same in a container as on its host. */
async function readBoot(): Promise<string> {
  return (await readFile('/proc/sys/kernel/random/boot_id', 'utf8')).trim();
}
