/**
 * The last known routes and backends in a file, for a router that starts while controller or discovery are away. Each is
 * used until the live one has spoken, and not a moment longer.
 *
 * The file is lines of JSON: what it is, then one route or service each, then how many there were. It is written beside
 * and renamed, so a reader has a whole one, and in portions, so that a hundred thousand routes keep no request waiting.
 */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createReadStream, createWriteStream } from 'node:fs';
import { readFile, readdir, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { instanceSchema } from '@flynn/discovery/api';
import type { Instance } from '@flynn/discovery/api';
import type { DiscoveryClient } from '@flynn/discovery/client';
import { routeSchema } from '@flynn/controller/model';
import type { Route } from '@flynn/controller/model';
import { pause } from '@flynn/kit/clock';
import { FlynnError, hasErrno, messageOf } from '@flynn/kit/errors';
import { shortId } from '@flynn/kit/ids';
import type { Logger } from '@flynn/kit/log';
import { z } from 'zod';
import type { RouteSink } from './feed.ts';

const headSchema = z.object({
  format: z.literal(1),
  /** Of the cluster: an address means something only there. */
  cluster: z.string(),
  /** Of the machine's start: after another one the same addresses may be other jobs'. */
  boot: z.string(),
  savedMs: z.number(),
  /** Of the routes, for going on from there. */
  revision: z.string().optional(),
});
const lineSchema = z.union([
  z.strictObject({ route: routeSchema }),
  z.strictObject({ service: z.string(), instances: z.array(instanceSchema), leader: z.string().optional() }),
]);
const tailSchema = z.strictObject({ lines: z.int() });

type Known = { instances: readonly Instance[]; leader: string | undefined };
type Content = { savedMs: number; revision: string | undefined; routes: Route[]; services: Map<string, Known> };
type Discovery = Pick<DiscoveryClient, 'openServiceSet'>;

/** Where backends are changes all the time: older ones are rather other jobs by now. */
const backendsMaxAgeMs = 3_600_000;
const halfMaxAgeMs = 60_000;
/** Between two writes. */
const restMs = 5_000;
const portion = 500;

export type RememberedOptions = {
  file: string;
  /** The cluster's key. */
  key: string;
  log: Logger;
  now?: () => number;
  /** What tells one start of the machine from the next. */
  boot?: () => Promise<string>;
  restMs?: number;
};

/** INVARIANT. What comes from the file is never put in the place of what came from the controller or discovery. */
export class RememberedTable implements RouteSink {
  readonly #options: Required<RememberedOptions>;
  readonly #head: { cluster: string; boot: string };
  readonly #routes = new Map<string, Route>();
  readonly #services = new Map<string, { signal: AbortSignal; known: () => Known }>();
  readonly #saved: Content | undefined;
  readonly #standIns = new Set<string>();
  #revision: () => string | undefined = () => undefined;
  #isLive = false;
  #isChanged = false;

  private constructor(options: Required<RememberedOptions>, head: { cluster: string; boot: string }, saved?: Content) {
    this.#options = options;
    this.#head = head;
    this.#saved = saved;
  }

  /** A file that cannot be used is as good as none, and told. */
  static async open(given: RememberedOptions): Promise<RememberedTable> {
    const options = { now: Date.now, boot: readBoot, restMs, ...given };
    const cluster = createHash('sha256').update(`flynn router table: ${options.key}`).digest('hex');
    const head = { cluster, boot: await options.boot() };
    await clean(options.file, options.now());
    try {
      return new RememberedTable(options, head, await load(options.file, head, options.now()));
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
    this.#isChanged = true;
  }

  set(route: Route): void {
    this.#routes.set(route.id, route);
    this.#isChanged = true;
  }

  remove(id: string): void {
    this.#isChanged = this.#routes.delete(id) || this.#isChanged;
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
        this.#services.set(service, { signal, known });
        this.#isChanged = true;
        const note = (): void => {
          isLive = true;
          this.#standIns.delete(service);
          this.#isChanged = true;
        };
        set.onChange(note);
        const forget = (): void => {
          if (this.#services.get(service)?.signal !== signal) return;
          this.#services.delete(service);
          this.#standIns.delete(service);
          this.#isChanged = true;
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
          onChange: (listener) => set.onChange(listener),
        };
      },
    };
  }

  /** Writes what is known, soon after it changed. */
  async run(signal: AbortSignal): Promise<void> {
    let isTold = false;
    while (!signal.aborted) {
      await pause(this.#options.restMs, signal);
      // What is only of the file needs no writing: its age would be lost.
      if (signal.aborted || !this.#isChanged || !this.#isLive || this.#standIns.size > 0) continue;
      this.#isChanged = false;
      try {
        await this.#write(signal);
        isTold = false;
      } catch (error) {
        this.#isChanged = true;
        if (!isTold && !signal.aborted)
          this.#options.log.warn({ err: error }, 'the routes cannot be kept for a restart');
        isTold = true;
      }
    }
  }

  async #write(signal: AbortSignal): Promise<void> {
    const { file, now } = this.#options;
    // Processes of other containers, with the same ids, may write at the same time.
    const temporary = `${file}.${shortId()}.tmp`;
    const head = { format: 1, ...this.#head, savedMs: now(), revision: this.#revision() };
    const routes = [...this.#routes.values()];
    const services = [...this.#services].map(([service, { known }]) => {
      const { instances, leader } = known();
      return { service, instances, leader };
    });
    const out = createWriteStream(temporary, { flags: 'wx', mode: 0o600, flush: true, signal });
    const failed = once(out, 'error').then(([error]) => Promise.reject(error));
    // Told by what is awaited below, if it happens.
    failed.catch(() => undefined);
    const put = async (lines: readonly object[]): Promise<void> => {
      const isTaken = out.write(lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
      await Promise.race([isTaken ? new Promise(setImmediate) : once(out, 'drain'), failed]);
    };
    try {
      await put([head]);
      for (let at = 0; at < routes.length; at += portion) {
        await put(routes.slice(at, at + portion).map((route) => ({ route })));
      }
      for (let at = 0; at < services.length; at += portion) await put(services.slice(at, at + portion));
      await put([{ lines: routes.length + services.length }]);
      out.end();
      await Promise.race([once(out, 'close'), failed]);
      await rename(temporary, file);
    } catch (error) {
      out.destroy();
      await rm(temporary, { force: true });
      throw error;
    }
  }
}

/** What others began to write and never ended. */
async function clean(file: string, nowMs: number): Promise<void> {
  const folder = dirname(file);
  const isHalf = (name: string) => name.startsWith(`${basename(file)}.`) && name.endsWith('.tmp');
  const half = await readdir(folder).then(
    (names) => names.filter(isHalf),
    () => [],
  );
  for (const name of half) {
    const path = join(folder, name);
    const mtimeMs = await stat(path).then(
      (found) => found.mtimeMs,
      () => nowMs,
    );
    if (nowMs - mtimeMs > halfMaxAgeMs) await rm(path, { force: true });
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

/** undefined if there is none. Throws what is wrong with it. */
async function load(
  file: string,
  expected: { cluster: string; boot: string },
  nowMs: number,
): Promise<Content | undefined> {
  const input = createReadStream(file, 'utf8');
  try {
    await once(input, 'open');
  } catch (error) {
    if (hasErrno(error, 'ENOENT')) return undefined;
    throw error;
  }
  let head: z.output<typeof headSchema> | undefined;
  let tail: z.output<typeof tailSchema> | undefined;
  const routes: Route[] = [];
  const services = new Map<string, Known>();
  try {
    for await (const text of createInterface({ input, crlfDelay: Infinity })) {
      const json: unknown = JSON.parse(text);
      if (head === undefined) head = headSchema.parse(json);
      else if (tail !== undefined) throw new FlynnError('invalid', 'it goes on behind its end');
      else {
        tail = tailSchema.safeParse(json).data;
        const line = tail === undefined ? lineSchema.parse(json) : undefined;
        if (line !== undefined && 'route' in line) routes.push(line.route);
        else if (line !== undefined) services.set(line.service, { instances: line.instances, leader: line.leader });
      }
    }
  } catch (error) {
    throw new FlynnError('invalid', `${file} is not as it should be: ${messageOf(error)}`, { cause: error });
  } finally {
    input.destroy();
  }
  if (head === undefined || tail?.lines !== routes.length + services.size) {
    throw new FlynnError('invalid', `${file} has no end: it was cut off`);
  }
  if (head.cluster !== expected.cluster) throw new FlynnError('invalid', `${file} is of another cluster`);
  const isOld = head.boot !== expected.boot || nowMs - head.savedMs > backendsMaxAgeMs;
  if (isOld) services.clear();
  return { savedMs: head.savedMs, revision: head.revision, routes, services };
}

/** The same in a container as on its host. */
async function readBoot(): Promise<string> {
  return (await readFile('/proc/sys/kernel/random/boot_id', 'utf8')).trim();
}
