/** Keys that live as long as this process does. */
import { hasCode } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { KeyedMutex } from '@flynn/kit/queue';
import { TaskGroup, forever } from '@flynn/kit/tasks';
import type { Lease, Revision, Store } from '@flynn/store/store';

/**
 * INVARIANTS. Every key that was put and not removed is in the store under the current lease, or is being put there: a
 * lease found lost is granted again and all keys follow. A removed key is gone, or is being removed. Writes of one key
 * happen one after the other, and each writes what is wanted at that moment, so a late put never undoes a removal.
 */
export class LeasedKeys implements AsyncDisposable {
  readonly #store: Store;
  readonly #ttlSeconds: number;
  readonly #log: Logger;
  readonly #tasks: TaskGroup;
  readonly #wanted = new Map<string, string>();
  /** Keys written in the background until it succeeds. */
  readonly #pursued = new Map<string, { isAskedFor: boolean }>();
  readonly #mutex = new KeyedMutex();
  #lease: Promise<Lease> | undefined;

  constructor(options: { store: Store; ttlSeconds: number; log: Logger; signal?: AbortSignal }) {
    this.#store = options.store;
    this.#ttlSeconds = options.ttlSeconds;
    this.#log = options.log;
    this.#tasks = new TaskGroup(options.signal === undefined ? {} : { signal: options.signal });
  }

  isWanted(key: string, value: string): boolean {
    return this.#wanted.get(key) === value;
  }

  /** The revision at which the key had the value. If it fails the key stays wanted, and is put when the store is back. */
  async put(key: string, value: string): Promise<Revision> {
    this.#wanted.set(key, value);
    return this.#settleOrPursue(key);
  }

  /** Fails like any write; the key is then removed when the store is back. */
  async remove(key: string): Promise<Revision> {
    this.#wanted.delete(key);
    return this.#settleOrPursue(key);
  }

  /** Puts a wanted key back that was seen to be gone. */
  restore(key: string): void {
    if (this.#wanted.has(key)) this.#pursue(key);
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
      const value = this.#wanted.get(key);
      if (value === undefined) return (await this.#store.transact({ then: [{ delete: key }] })).revision;
      for (let attempt = 0; ; attempt += 1) {
        const lease = await this.#currentLease();
        try {
          return (await this.#store.transact({ then: [{ put: key, value, lease: lease.id }] })).revision;
        } catch (error) {
          // The lease expired before its loss was noticed; the next attempt has a new one.
          if (attempt > 0 || !hasCode(error, 'not_found')) throw error;
          this.#forget(lease);
        }
      }
    });
  }

  #currentLease(): Promise<Lease> {
    if (this.#lease !== undefined) return this.#lease;
    const granting = this.#store.grantLease({ ttlSeconds: this.#ttlSeconds });
    this.#lease = granting;
    granting.then(
      (lease) => lease.lost.addEventListener('abort', () => this.#forget(lease), { once: true }),
      () => {
        if (this.#lease === granting) this.#lease = undefined;
      },
    );
    return granting;
  }

  #forget(lost: Lease): void {
    const current = this.#lease;
    if (current === undefined) return;
    const replace = (lease: Lease) => {
      if (lease.id !== lost.id || this.#lease !== current) return;
      this.#lease = undefined;
      if (this.#tasks.signal.aborted) return;
      this.#log.warn({ leaseId: lost.id, keys: this.#wanted.size }, 'the lease was lost: putting its keys again');
      for (const key of this.#wanted.keys()) this.restore(key);
      // Stops what still tries to renew it.
      this.#inBackground('ending a lost lease', async () => lost[Symbol.asyncDispose]());
    };
    // One that could not be granted is not the one that was lost; who asked for it was told.
    void current.then(replace, () => undefined);
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
