/** Keys that live as long as this process does. */
import { hasCode } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { KeyedMutex } from '@flynn/kit/queue';
import { TaskGroup, forever } from '@flynn/kit/tasks';
import type { CallOptions, Lease, Revision, Store } from '@flynn/store/store';

type Wanted = {
  value: string;
  ttlSeconds: number;
  /** Others may keep the key in this process's place, or remove it: who announces it speaks with any of them. */
  isShared: boolean;
  /** Of such a one: when it was seen to be gone while its lease was thought to live, on performance.now()'s clock. */
  goneMs?: number;
  /** The last that has begun. */
  put?: Put;
};

/** Without a revision it is under way, or has failed; `othersRevision`: another process's put that was seen meanwhile. */
type Put = { revision?: Revision; othersRevision?: Revision };

/**
 * INVARIANTS. Every key that was put and not removed is in the store under the current lease of its TTL, or is being put
 * there: a lease found lost is granted again and all its keys follow. A removed key is gone, or is being removed. Writes of
 * one key happen one after the other, and each writes what is wanted at that moment, so a late put never undoes a removal.
 * A shared key that another process has put later is that one's; one that went while its lease lived was removed, and stays so.
 */
export class LeasedKeys implements AsyncDisposable {
  readonly #store: Store;
  readonly #log: Logger;
  readonly #tasks: TaskGroup;
  readonly #wanted = new Map<string, Wanted>();
  /** Keys to be removed only if they are on a lease of this process. */
  readonly #expired = new Set<string>();
  /** Keys written in the background until it succeeds. */
  readonly #pursued = new Map<string, { isAskedFor: boolean }>();
  readonly #mutex = new KeyedMutex();
  /** One for each TTL in use, shared by its keys. */
  readonly #leases = new Map<number, Promise<Lease>>();
  readonly #ownLeaseIds = new Set<string>();
  /** Of each TTL the one that is held, and when the store last answered a renewal of any. */
  readonly #held = new Map<number, Lease>();
  readonly #renewedMs = new Map<number, number>();

  constructor(options: { store: Store; log: Logger; signal?: AbortSignal }) {
    this.#store = options.store;
    this.#log = options.log;
    this.#tasks = new TaskGroup(options.signal === undefined ? {} : { signal: options.signal });
  }

  isWanted(key: string, value: string, ttlSeconds: number): boolean {
    const wanted = this.#wanted.get(key);
    return wanted?.value === value && wanted.ttlSeconds === ttlSeconds && wanted.goneMs === undefined;
  }

  /** When a renewal of keys with that TTL was sent that the store answered, on performance.now()'s clock. */
  renewedMs(ttlSeconds: number): number | undefined {
    const held = this.#held.get(ttlSeconds);
    const known = this.#renewedMs.get(ttlSeconds);
    if (held === undefined) return known;
    const renewedMs = Math.max(known ?? -Infinity, held.expiresAtMs - ttlSeconds * 1_000);
    this.#renewedMs.set(ttlSeconds, renewedMs);
    return renewedMs;
  }

  /**
   * The revision at which the key had the value. If it fails the key stays wanted, and is put when the store is back. It
   * outlives this process by `ttlSeconds` at most.
   */
  async put(key: string, value: string, ttlSeconds: number, { isShared = false } = {}): Promise<Revision> {
    this.#expired.delete(key);
    this.#wanted.set(key, { value, ttlSeconds, isShared });
    return this.#settleOrPursue(key);
  }

  /** Fails like any write; the key is then removed when the store is back. */
  async remove(key: string): Promise<Revision> {
    this.#expired.delete(key);
    this.#wanted.delete(key);
    return this.#settleOrPursue(key);
  }

  /** Removes it in the background, unless another process has put it since: then it is that one's. */
  expire(key: string): void {
    this.#expired.add(key);
    this.#wanted.delete(key);
    this.#pursue(key);
  }

  /** Puts a wanted key back that was seen to be gone. */
  restore(key: string): void {
    const wanted = this.#wanted.get(key);
    if (wanted === undefined) return;
    delete wanted.goneMs;
    this.#pursue(key);
  }

  /** The same, but a shared one only once its lease turns out not to have outlived it. */
  restoreUnlessRemoved(key: string): void {
    const wanted = this.#wanted.get(key);
    if (wanted?.isShared === true && this.#held.has(wanted.ttlSeconds)) wanted.goneMs ??= performance.now();
    else this.restore(key);
  }

  /**
   * Whether a shared key is wanted no more, since another process has put it after this one did. Told while a put is under way it
   * goes by what that turns out to be; if it fails the key is the other's.
   */
  yieldTo(
    key: string,
    { lease, modRevision }: Readonly<{ lease: string | undefined; modRevision: Revision }>,
  ): boolean {
    const { isShared = false, put } = this.#wanted.get(key) ?? {};
    const isOthers = lease === undefined || !this.#ownLeaseIds.has(lease);
    // What has not begun comes after it.
    if (!isShared || !isOthers || put === undefined) return false;
    if (put.revision === undefined) put.othersRevision = modRevision;
    const isLater = put.revision !== undefined && modRevision > put.revision;
    if (isLater) this.expire(key);
    return isLater;
  }

  /**
   * Moves those of the wanted keys to that lease, for when this process ends: they stay as long as it does. For one that
   * is being removed meanwhile nothing is written.
   */
  async outlive(lease: Pick<Lease, 'id'>, isMoved: (key: string) => boolean, options: CallOptions): Promise<void> {
    this.#ownLeaseIds.add(lease.id);
    const keys = [...this.#wanted.keys()].filter(isMoved);
    await Promise.all(
      keys.map((key) =>
        this.#mutex.run(key, async () => {
          const wanted = this.#wanted.get(key);
          if (wanted === undefined) return;
          await this.#store.transact({ then: [{ put: key, value: wanted.value, lease: lease.id }] }, options);
        }),
      ),
    );
  }

  async #settleOrPursue(key: string): Promise<Revision> {
    try {
      return await this.#settle(key);
    } catch (error) {
      this.#pursue(key);
      throw error;
    }
  }

  /** One at a time for a key, however often it is asked for; asked for meanwhile, it settles the key once more. */
  #pursue(key: string): void {
    const isUnderWay = this.#pursued.has(key);
    this.#pursued.set(key, { isAskedFor: true });
    if (isUnderWay) return;
    this.#inBackground(`writing ${key}`, async () => {
      while (this.#pursued.get(key)?.isAskedFor === true) {
        this.#pursued.set(key, { isAskedFor: false });
        try {
          await this.#settle(key);
        } catch (error) {
          this.#pursued.set(key, { isAskedFor: true });
          throw error;
        }
      }
      this.#pursued.delete(key);
    });
  }

  #settle(key: string): Promise<Revision> {
    return this.#mutex.run(key, async () => {
      const wanted = this.#wanted.get(key);
      if (wanted === undefined) return this.#expired.has(key) ? this.#removeOwn(key) : this.#delete(key);
      const { value, ttlSeconds, put: former } = wanted;
      // Of a put that failed, whoever asked for it was told, and asks again.
      if (former?.revision === undefined && former?.othersRevision !== undefined) return this.#yield(key);
      const put: Put = (wanted.put = {});
      for (let attempt = 0; ; attempt += 1) {
        const lease = await this.#leaseOf(ttlSeconds);
        try {
          const { revision } = await this.#store.transact({ then: [{ put: key, value, lease: lease.id }] });
          put.revision = revision;
          if ((put.othersRevision ?? 0) > revision && this.#wanted.get(key) === wanted) this.expire(key);
          return revision;
        } catch (error) {
          // The lease expired before its loss was noticed; the next attempt has a new one.
          if (attempt > 0 || !hasCode(error, 'not_found')) throw error;
          this.#forget(lease);
        }
      }
    });
  }

  async #yield(key: string): Promise<Revision> {
    this.#expired.add(key);
    this.#wanted.delete(key);
    return this.#removeOwn(key);
  }

  async #delete(key: string): Promise<Revision> {
    return (await this.#store.transact({ then: [{ delete: key }] })).revision;
  }

  async #removeOwn(key: string): Promise<Revision> {
    for (;;) {
      const entry = await this.#store.get(key);
      const isOwn = entry?.lease !== undefined && this.#ownLeaseIds.has(entry.lease);
      if (entry === undefined || !isOwn) {
        this.#expired.delete(key);
        return 0;
      }
      const compare = [{ key, modRevision: entry.modRevision }];
      const { succeeded, revision } = await this.#store.transact({ compare, then: [{ delete: key }] });
      if (!succeeded) continue;
      this.#expired.delete(key);
      return revision;
    }
  }

  #leaseOf(ttlSeconds: number): Promise<Lease> {
    const current = this.#leases.get(ttlSeconds);
    if (current !== undefined) return current;
    const granting = this.#store.grantLease({ ttlSeconds });
    this.#leases.set(ttlSeconds, granting);
    granting.then(
      (lease) => {
        this.#ownLeaseIds.add(lease.id);
        this.#held.set(ttlSeconds, lease);
        lease.lost.addEventListener('abort', () => this.#forget(lease), { once: true });
      },
      () => {
        if (this.#leases.get(ttlSeconds) === granting) this.#leases.delete(ttlSeconds);
      },
    );
    return granting;
  }

  #forget(lost: Lease): void {
    for (const [ttlSeconds, current] of this.#leases) {
      const replace = (lease: Lease) => {
        if (lease.id !== lost.id || this.#leases.get(ttlSeconds) !== current) return;
        this.#leases.delete(ttlSeconds);
        const renewedMs = this.renewedMs(ttlSeconds) ?? -Infinity;
        this.#held.delete(ttlSeconds);
        if (this.#tasks.signal.aborted) return;
        const keys = this.#lostWith(ttlSeconds, renewedMs);
        this.#log.warn({ leaseId: lost.id, keys: keys.length }, 'the lease was lost: putting its keys again');
        for (const key of keys) this.restore(key);
        // Stops what still tries to renew it.
        this.#inBackground('ending a lost lease', async () => lost[Symbol.asyncDispose]());
      };
      // One that could not be granted is not the one that was lost; who asked for it was told.
      void current.then(replace, () => undefined);
    }
  }

  /** Of a lease that was renewed last at that time: a key that was seen to be gone before then was removed, and is forgotten. */
  #lostWith(ttlSeconds: number, renewedMs: number): string[] {
    const lost: string[] = [];
    for (const [key, wanted] of this.#wanted) {
      if (wanted.ttlSeconds !== ttlSeconds) continue;
      if ((wanted.goneMs ?? Infinity) < renewedMs) this.#wanted.delete(key);
      else lost.push(key);
    }
    return lost;
  }

  #inBackground(name: string, work: () => Promise<void>): void {
    this.#tasks.run(name, async (signal) => {
      const done = new AbortController();
      await forever(
        name,
        async () => {
          await work();
          done.abort();
        },
        { signal: AbortSignal.any([signal, done.signal]), log: this.#log },
      );
    });
  }

  /**
   * Stops putting keys back. The lease is left to the store: closing that stops its renewal without ending it, so a process
   * that is back within the TTL takes its keys over as they were, and nobody saw them go.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#tasks.stop();
  }
}
