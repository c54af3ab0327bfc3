/** The registry on a Store: etcd's for a cluster, or the memory store's for a test of one. */
import { FlynnError } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { openMirror } from '@flynn/store/mirror';
import type { Mirror, MirrorChange } from '@flynn/store/mirror';
import type { CallOptions, Entry, Lease, Operation, Revision, Store } from '@flynn/store/store';
import { z } from 'zod';
import { leaderChoiceSchema } from './api.ts';
import type { Instance, LeaderChoice, ServiceMeta } from './api.ts';
import { Expiries } from './expiries.ts';
import { hasSameAttributes } from './instances.ts';
import { LeasedKeys } from './leased-keys.ts';
import { checkChoice, checkRegistration, checkService, metaConflict } from './registration.ts';
import type { MetaWrite, Registration, Registry } from './registry.ts';
import { ServiceTable } from './service-table.ts';
import { Standstill } from './standstill.ts';
import { VouchedServices } from './vouched-services.ts';

const prefix = '/flynn/discovery/';
export const instanceKey = (service: string, id: string) => `${prefix}services/${service}/${id}`;
const leaderKey = (service: string) => `${prefix}leaders/${service}`;
const metaKey = (service: string) => `${prefix}meta/${service}`;

const announcedSchema = z.object({ address: z.string(), attributes: z.record(z.string(), z.string()).default({}) });

/** What one key under the prefix says. */
type Record =
  | { type: 'instance'; instance: Instance; lease: string | undefined; modRevision: Revision }
  | { type: 'leader'; service: string; choice: LeaderChoice }
  | { type: 'meta'; service: string; meta: ServiceMeta };

type RegistryOptions = {
  store: Store;
  log: Logger;
  signal?: AbortSignal;
  /** How long instances outlive a process that vanished, default 10 s. */
  ttlSeconds?: number;
  /** How many events a slow reader may be behind, default 1,000. */
  queueLimit?: number;
  /** Milliseconds of the clock that the store's leases are told by, default performance.now(). */
  now?: () => number;
};

/** A registry whose process may leave what it vouches for to the next one for longer than its own TTL. */
export interface LastingRegistry extends Registry {
  /**
   * Puts that on the lease, what was bound to another lease too: the last thing a process does. What has to be registered
   * again in time (`ttlSeconds`) is left as it is. Rejects like any write; then some of it was moved, or none.
   */
  outlive(lease: Pick<Lease, 'id'>, options?: CallOptions): Promise<void>;
}

/** Waits up to 30 s for the store. Close the store after the registry: instances then stay for their TTL. */
export async function createRegistry(options: RegistryOptions): Promise<LastingRegistry> {
  await using opened = new AsyncDisposableStack();
  const vouched = opened.use(await VouchedServices.open(options));
  const mirror = opened.use(
    await openMirror<Record>({
      store: options.store,
      prefix,
      decode: decodeRecord,
      log: options.log,
      ...(options.signal === undefined ? {} : { signal: options.signal }),
    }),
  );
  const registry = new StoreRegistry(mirror, vouched, options);
  opened.move();
  return registry;
}

/** A write is done when it is in the mirror, so that whoever wrote reads it next. */
const reachMs = 5_000;

/** Whose lease ended because the store stood still is announced anew within a second or two of its going on. */
const reprieveSeconds = 5;
const lookEveryMs = 1_000;

/**
 * INVARIANTS. What is known is what the mirror has; beside it, for a few seconds, what went while the store stood still and
 * nobody here took back: its lease may have ended by that alone, and is made up for before anybody needs to hear of it.
 */
class StoreRegistry extends ServiceTable implements LastingRegistry {
  readonly #store: Store;
  readonly #mirror: Mirror<Record>;
  readonly #ttlSeconds: number;
  readonly #keys: LeasedKeys;
  readonly #vouched: VouchedServices;
  readonly #expiries = new Expiries();
  /** Values of keys on leases of the caller's. */
  readonly #bound = new Map<string, string>();
  readonly #standstill: Standstill;
  readonly #looking: NodeJS.Timeout;
  readonly #reprieves = new Expiries();
  readonly #log: Logger;
  readonly #unfollow: () => void;

  constructor(mirror: Mirror<Record>, vouched: VouchedServices, options: RegistryOptions) {
    super(options);
    this.#mirror = mirror;
    this.#vouched = vouched;
    this.#store = options.store;
    this.#log = options.log;
    this.#ttlSeconds = options.ttlSeconds ?? 10;
    this.#keys = new LeasedKeys(options);
    const ttlMs = this.#ttlSeconds * 1_000;
    this.#standstill = new Standstill({
      renewedMs: () => this.#keys.renewedMs(this.#ttlSeconds),
      silentMs: ttlMs / 2,
      lastsMs: ttlMs / 2,
      now: options.now ?? (() => performance.now()),
    });
    this.#looking = setInterval(() => this.#standstill.look(), lookEveryMs).unref();
    for (const [, { value }] of mirror.snapshot.entries) this.#apply({ after: value });
    this.#unfollow = mirror.onChange((change) => {
      this.#follow(change);
      this.#keep(change);
    });
    options.signal?.addEventListener('abort', () => this.#stopTimers(), { once: true });
  }

  async register(
    registration: Registration,
    { ttlSeconds, lease }: { ttlSeconds?: number; lease?: { id: string } } = {},
  ): Promise<Instance> {
    const { service, id, address, attributes } = checkRegistration(registration);
    const key = instanceKey(service, id);
    const value = JSON.stringify({ address, attributes });
    const ttl = ttlSeconds ?? this.#ttlSeconds;
    // Before the write and after it: a write that fails half way must expire too.
    this.#expireAfter(ttlSeconds, service, id);
    const known = this.instance(service, id);
    // What is wanted may not have got through yet.
    const isThere = known?.address === address && hasSameAttributes(known.attributes, attributes);
    if (lease === undefined && isThere && this.#keys.isWanted(key, value, ttl)) return known;
    if (lease === undefined) this.#bound.delete(key);
    else this.#bound.set(key, value);
    const revision =
      lease === undefined
        ? await this.#keys.put(key, value, ttl, { isShared: ttlSeconds !== undefined })
        : (await this.#store.transact({ then: [{ put: key, value, lease: lease.id }] })).revision;
    this.#expireAfter(ttlSeconds, service, id);
    await this.#mirror.reached(revision, { deadlineMs: reachMs });
    const instance = this.instance(service, id);
    if (instance === undefined) {
      throw new FlynnError(
        'conflict',
        `${service}/${id} was taken back while it was being announced: announce it again`,
      );
    }
    return instance;
  }

  isVouchedFor(service: string): boolean {
    return this.#vouched.has(service);
  }

  vouchFor(services: readonly string[]): void {
    this.#vouched.vouchFor(services);
  }

  async deregister(service: string, id: string): Promise<void> {
    const key = instanceKey(service, id);
    this.#expiries.forget(key);
    this.#bound.delete(key);
    const revision = await this.#keys.remove(key);
    if (this.#reprieves.forget(key)) this.changeInstance(service, id, undefined);
    // Without such a key there is nothing to wait for.
    if (this.instance(service, id) !== undefined) await this.#mirror.reached(revision, { deadlineMs: reachMs });
  }

  async setMeta(service: string, { data, version, leader }: MetaWrite): Promise<ServiceMeta> {
    const key = metaKey(checkService(service));
    const operations: Operation[] = [{ put: key, value: JSON.stringify({ data }) }];
    // First, so that whoever hears of the document knows its leader already.
    if (leader !== undefined) operations.unshift(putChoice(service, { by: 'manual', instance: leader }));
    const { succeeded, revision, reads } = await this.#store.transact({
      ...(version === undefined ? {} : { compare: [{ key, modRevision: version }], else: [{ get: key }] }),
      then: operations,
    });
    if (!succeeded) throw metaConflict(service, version ?? 0, reads[0]?.[0]?.modRevision ?? 0);
    await this.#mirror.reached(revision, { deadlineMs: reachMs });
    return { data, version: revision };
  }

  async removeMeta(service: string): Promise<void> {
    const { revision } = await this.#store.transact({ then: [{ delete: metaKey(checkService(service)) }] });
    if (this.meta(service) !== undefined) await this.#mirror.reached(revision, { deadlineMs: reachMs });
  }

  async chooseLeader(service: string, choice: LeaderChoice): Promise<void> {
    const { revision } = await this.#store.transact({ then: [putChoice(checkService(service), choice)] });
    await this.#mirror.reached(revision, { deadlineMs: reachMs });
  }

  async outlive(lease: Pick<Lease, 'id'>, options: CallOptions = {}): Promise<void> {
    const put = ([key, value]: [string, string]) =>
      this.#store.transact({ then: [{ put: key, value, lease: lease.id }] }, options);
    await Promise.all([
      this.#keys.outlive(lease, (key) => !this.#expiries.has(key), options),
      ...[...this.#bound].map(put),
    ]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopTimers();
    this.#unfollow();
    this.close();
    await this.#keys[Symbol.asyncDispose]();
    await this.#vouched[Symbol.asyncDispose]();
    await this.#mirror[Symbol.asyncDispose]();
  }

  #expireAfter(ttlSeconds: number | undefined, service: string, id: string): void {
    const key = instanceKey(service, id);
    if (ttlSeconds === undefined) {
      this.#expiries.forget(key);
      return;
    }
    this.#expiries.keepFor(ttlSeconds, key, () => {
      this.#log.info({ service, id }, 'not announced again in time: taking the instance back');
      this.#keys.expire(key);
    });
  }

  #stopTimers(): void {
    clearInterval(this.#looking);
    this.#expiries.stop();
    this.#reprieves.stop();
  }

  /** As `#apply`, but what goes because the store stood still has time to come back. */
  #follow(change: MirrorChange<Record>): void {
    const key = prefix + change.key;
    this.#reprieves.forget(key);
    const { before, after } = change;
    const isSuspect = after === undefined && before?.type === 'instance' && this.#standstill.isRecent;
    if (isSuspect) this.#reprieves.keepFor(reprieveSeconds, key, () => this.#apply(change));
    else this.#apply(change);
  }

  /** Keys go when their lease does, which may be noticed late: then they are still meant to be there. */
  #keep({ key, after }: MirrorChange<Record>): void {
    if (after === undefined) {
      if (this.#standstill.isRecent) this.#keys.restore(prefix + key);
      else this.#keys.restoreUnlessRemoved(prefix + key);
    } else if (after.type === 'instance' && this.#keys.yieldTo(prefix + key, after)) {
      this.#expiries.forget(prefix + key);
    }
  }

  #apply({ before, after }: Pick<MirrorChange<Record>, 'before' | 'after'>): void {
    const record = after ?? before;
    if (record === undefined) return;
    switch (record.type) {
      case 'instance':
        return this.changeInstance(
          record.instance.service,
          record.instance.id,
          after === undefined ? undefined : record.instance,
        );
      case 'leader':
        return this.changeChoice(record.service, after === undefined ? undefined : record.choice);
      case 'meta':
        return this.changeMeta(record.service, after === undefined ? undefined : record.meta);
      default:
        return record satisfies never;
    }
  }
}

function putChoice(service: string, choice: LeaderChoice): Operation {
  const checked = checkChoice(choice);
  const key = leaderKey(service);
  return checked.by === 'oldest' ? { delete: key } : { put: key, value: JSON.stringify(checked) };
}

/** Keys are `services/<service>/<instance>`, `leaders/<service>` and `meta/<service>`. */
function decodeRecord(json: unknown, key: string, entry: Entry): Record {
  const [kind = '', service = '', ...rest] = key.split('/');
  if (kind === 'services') {
    const announced = announcedSchema.parse(json);
    const instance = { service, id: rest.join('/'), ...announced, createdRevision: entry.createRevision };
    Object.freeze(instance.attributes);
    return { type: 'instance', instance: Object.freeze(instance), lease: entry.lease, modRevision: entry.modRevision };
  }
  if (kind === 'leaders') return { type: 'leader', service, choice: leaderChoiceSchema.parse(json) };
  if (kind === 'meta') {
    const { data } = z.object({ data: z.json() }).parse(json);
    return { type: 'meta', service, meta: Object.freeze({ data, version: entry.modRevision }) };
  }
  throw new FlynnError('invalid', `${prefix}${key} is nothing discovery knows`);
}
