/** What this router has taken in of routes and instances, and is done with, for those who ask for its word. */
import type { DiscoveryClient } from '@flynn/discovery/client';
import type { Word } from '@flynn/discovery/routers';
import type { Route } from '@flynn/controller/model';

type Discovery = Pick<DiscoveryClient, 'openServiceSet'>;

/**
 * INVARIANTS. What is known here is in force already: it is noted after whoever acts on it was told. Nobody who waits is
 * left behind: every change wakes all of them, and so does their deadline.
 */
export class Knowledge {
  /** Id → revision; 0 for a controller that tells none. */
  readonly #routes = new Map<string, number>();
  /** Only services that are watched; the signal ends that. */
  readonly #services = new Map<string, { signal: AbortSignal; ids: ReadonlySet<string> }>();
  readonly #isAnswering: (service: string, id: string) => boolean;
  #hasRoutes = false;
  readonly #waiting = new Set<() => void>();

  /** `isAnswering`: of an instance that gets nothing new any more; when that ends is said by `rested`. */
  constructor(isAnswering: (service: string, id: string) => boolean) {
    this.#isAnswering = isAnswering;
  }

  /** The same, but what it tells is noted. */
  noting(discovery: Discovery): Discovery {
    return {
      openServiceSet: async (service, options) => {
        const { signal } = options;
        const isCurrent = (): boolean => this.#services.get(service)?.signal === signal;
        const forget = (): void => {
          if (isCurrent()) this.#services.delete(service);
          this.#wake();
        };
        this.#services.set(service, { signal, ids: new Set() });
        signal.addEventListener('abort', forget, { once: true });
        const set = await discovery.openServiceSet(service, options);
        const note = (): void => {
          if (!isCurrent()) return;
          this.#services.set(service, { signal, ids: new Set(set.instances.map(({ id }) => id)) });
          this.#wake();
        };
        // Whoever opened it acts on the first list as soon as it gets the set.
        setImmediate(note);
        return {
          get instances() {
            return set.instances;
          },
          get leader() {
            return set.leader;
          },
          ready: set.ready,
          get silentSinceMs() {
            return set.silentSinceMs;
          },
          onChange: (listener) =>
            set.onChange((instances) => {
              listener(instances);
              note();
            }),
        };
      },
    };
  }

  /** These and no others. */
  replace(routes: readonly Pick<Route, 'id' | 'revision'>[]): void {
    this.#routes.clear();
    for (const { id, revision = 0 } of routes) this.#routes.set(id, revision);
    this.#hasRoutes = true;
    this.#wake();
  }

  set({ id, revision = 0 }: Pick<Route, 'id' | 'revision'>): void {
    this.#routes.set(id, revision);
    this.#wake();
  }

  remove(id: string): void {
    this.#routes.delete(id);
    this.#wake();
  }

  /** An instance has answered its last request. */
  rested(): void {
    this.#wake();
  }

  isSo({ routes = [], services = [] }: Word): boolean {
    return (
      (routes.length === 0 || this.#hasRoutes) &&
      routes.every(({ id, revision }) => {
        const known = this.#routes.get(id);
        return revision === undefined ? known === undefined : known !== undefined && known >= revision;
      }) &&
      services.every(({ service, up = [], down = [], ended = [] }) => {
        const known = this.#services.get(service)?.ids;
        const has = (id: string): boolean => known?.has(id) === true;
        return (
          (known === undefined || up.every(has)) &&
          !down.some(has) &&
          !ended.some((id) => has(id) || this.#isAnswering(service, id))
        );
      })
    );
  }

  /** Whether it was so at some moment before the wait was over. */
  async becomesSo(word: Word, options: { waitMs: number; signal: AbortSignal }): Promise<boolean> {
    const over = AbortSignal.any([options.signal, AbortSignal.timeout(options.waitMs)]);
    for (;;) {
      if (this.isSo(word)) return true;
      if (over.aborted) return false;
      await this.#change(over);
    }
  }

  #change(over: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.add(resolve);
    over.addEventListener('abort', () => resolve(), { once: true });
    return promise.finally(() => this.#waiting.delete(resolve));
  }

  #wake(): void {
    for (const wake of this.#waiting) wake();
  }
}
