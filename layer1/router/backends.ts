/** The backends of every service that a route names, as discovery tells them. */
import type { DiscoveryClient } from '@flynn/discovery/client';
import type { Instance } from '@flynn/discovery/api';
import { messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { Backend } from './backend.ts';

type Watched = { backends: readonly Backend[]; leader: Backend | undefined; opened: Promise<void>; stop: AbortController };

/**
 * INVARIANTS. A service is watched exactly as long as a route names it. A backend whose address stays keeps its
 * connections and its count; one that discovery takes back gets no new request.
 */
export class Backends implements Disposable {
  readonly #discovery: Pick<DiscoveryClient, 'openServiceSet'>;
  readonly #log: Logger;
  readonly #services = new Map<string, Watched>();
  readonly #leaving = new Set<Backend>();

  constructor(options: { discovery: Pick<DiscoveryClient, 'openServiceSet'>; log: Logger }) {
    this.#discovery = options.discovery;
    this.#log = options.log;
  }

  /** Watches these services and no others. */
  watch(services: ReadonlySet<string>): void {
    for (const [name, watched] of this.#services) {
      if (services.has(name)) continue;
      this.#services.delete(name);
      watched.stop.abort();
      this.#replace(watched, []);
    }
    for (const name of services) if (!this.#services.has(name)) this.#open(name);
  }

  /** Waits until a service that has just become watched is known: a new route must not begin with refusals. */
  async of(service: string): Promise<readonly Backend[]> {
    const watched = this.#services.get(service);
    if (watched === undefined) return [];
    if (watched.backends.length === 0) await watched.opened;
    return watched.backends;
  }

  /** As discovery has it; undefined while there is none. */
  leaderOf(service: string): Backend | undefined {
    return this.#services.get(service)?.leader;
  }

  /** Resolves when every service watched now has been told by discovery, or has had its time. */
  async opened(): Promise<void> {
    await Promise.all([...this.#services.values()].map((watched) => watched.opened));
  }

  list(): Backend[] {
    for (const backend of this.#leaving) if (backend.inFlight === 0) this.#leaving.delete(backend);
    return [...[...this.#services.values()].flatMap((watched) => watched.backends), ...this.#leaving];
  }

  [Symbol.dispose](): void {
    this.watch(new Set());
  }

  #open(service: string): void {
    const stop = new AbortController();
    const opened = Promise.withResolvers<void>();
    const watched: Watched = { backends: [], leader: undefined, opened: opened.promise, stop };
    this.#services.set(service, watched);
    const update = (instances: readonly Instance[], leader: Instance | undefined) => {
      if (stop.signal.aborted) return;
      const known = new Map(watched.backends.map((backend) => [backend.address, backend]));
      const addresses = new Set(instances.map((instance) => instance.address));
      this.#replace(
        watched,
        [...addresses].map((address) => known.get(address) ?? new Backend(service, address)),
      );
      watched.leader = watched.backends.find(({ address }) => address === leader?.address);
    };
    this.#discovery
      .openServiceSet(service, { signal: stop.signal, log: this.#log })
      .then((set) => {
        set.onChange((instances) => update(instances, set.leader));
        update(set.instances, set.leader);
      })
      .catch((error: unknown) => {
        if (!stop.signal.aborted)
          this.#log.error({ err: error, service }, `cannot watch ${service}: ${messageOf(error)}`);
      })
      .finally(opened.resolve);
  }

  #replace(watched: Watched, backends: readonly Backend[]): void {
    for (const backend of watched.backends) {
      if (backends.includes(backend)) continue;
      backend.leave();
      if (backend.inFlight > 0) this.#leaving.add(backend);
    }
    watched.backends = backends;
  }
}
