/** The backends of every service that a route names, as discovery tells them. */
import type { DiscoveryClient } from '@flynn/discovery/client';
import type { Instance } from '@flynn/discovery/api';
import { asPart, identityAttribute, isOfAgent, platformServices } from '@flynn/discovery/parts';
import { messageOf } from '@flynn/kit/errors';
import type { LiveIdentity } from '@flynn/kit/identity';
import type { Logger } from '@flynn/kit/log';
import { Backend } from './backend.ts';
import { readmitBeyondHalf } from './policy/health.ts';

/** Jobs of an app say in discovery which release they are of. */
const releaseAttribute = 'flynn.release';

/** A service that is watched. */
export class Service {
  readonly name: string;
  /** Resolves when discovery has told it, or has had its time. */
  readonly opened: Promise<void>;
  /** Never changed, but replaced: what is worked out of a list can be kept by it. */
  backends: readonly Backend[] = [];
  leader: Backend | undefined = undefined;
  isOpened = false;
  #change = Promise.withResolvers<void>();

  constructor(name: string, opened: Promise<void>) {
    this.name = name;
    this.opened = opened.then(() => {
      this.isOpened = true;
    });
  }

  /** Resolves when others are there than now. */
  get changed(): Promise<void> {
    return this.#change.promise;
  }

  tellChanged(): void {
    const { resolve } = this.#change;
    this.#change = Promise.withResolvers<void>();
    resolve();
  }
}

/** `update`: once discovery has told of it, has what it told last looked at again. */
type Watched = { service: Service; holders: number; stop: AbortController; update?: () => void };

/** No part is asked in a way that it does not answer for longer than others may take to hear of its release. */
const lookEveryMs = 2_000;

/**
 * INVARIANTS. A service is watched exactly as long as somebody holds it. A backend whose address stays keeps its
 * connections and its count; one that discovery takes back gets no new request.
 */
export class Backends implements Disposable {
  readonly #discovery: Pick<DiscoveryClient, 'openServiceSet'>;
  readonly #identity: LiveIdentity | undefined;
  readonly #log: Logger;
  readonly #services = new Map<string, Watched>();
  readonly #leaving = new Set<Backend>();
  readonly #onRest: (() => void) | undefined;
  readonly #looking: NodeJS.Timeout;
  /** As it was at the last look: all services go by the same word. */
  #isEverybodyKnown: boolean;

  /** Without an identity everybody is spoken to in clear, the platform's own parts too. */
  constructor(options: {
    discovery: Pick<DiscoveryClient, 'openServiceSet'>;
    identity?: LiveIdentity | undefined;
    /** Called when a backend that has left has answered its last request. */
    onRest?: () => void;
    log: Logger;
  }) {
    this.#discovery = options.discovery;
    this.#identity = options.identity;
    this.#onRest = options.onRest;
    this.#log = options.log;
    this.#isEverybodyKnown = this.#identity?.isEverybodyKnown === true;
    this.#looking = setInterval(() => this.#look(), lookEveryMs).unref();
  }

  /** Watches it until as many have dropped it as hold it. */
  hold(name: string): Service {
    const watched = this.#services.get(name) ?? this.#open(name);
    watched.holders += 1;
    return watched.service;
  }

  drop(name: string): void {
    const watched = this.#services.get(name);
    if (watched === undefined) return;
    watched.holders -= 1;
    if (watched.holders === 0) this.#close(name, watched);
  }

  /** Waits until a service that has just become watched is known: a new route must not begin with refusals. */
  async of(name: string): Promise<readonly Backend[]> {
    const service = this.#services.get(name)?.service;
    if (service === undefined) return [];
    if (service.backends.length === 0) await service.opened;
    return service.backends;
  }

  /** Resolves when others are there for it than now; undefined of a service that is not watched. */
  changed(name: string): Promise<void> | undefined {
    return this.#services.get(name)?.service.changed;
  }

  /** As discovery has it; undefined while there is none. */
  leaderOf(service: string): Backend | undefined {
    return this.#services.get(service)?.service.leader;
  }

  /** Resolves when every service watched now has been told by discovery, or has had its time. */
  async opened(): Promise<void> {
    await Promise.all([...this.#services.values()].map(({ service }) => service.opened));
  }

  /** Those that are there, and those that have left and are still in use. */
  *all(): Generator<Backend> {
    for (const { service } of this.#services.values()) yield* service.backends;
    for (const backend of this.#leaving) {
      if (backend.inFlight > 0) yield backend;
      else this.#leaving.delete(backend);
    }
  }

  /** Whether an instance that has left its service has not answered everything yet. */
  isAnswering(service: string, instanceId: string): boolean {
    for (const backend of this.#leaving) {
      if (backend.service === service && backend.requests > 0 && backend.instanceIds.has(instanceId)) return true;
    }
    return false;
  }

  [Symbol.dispose](): void {
    clearInterval(this.#looking);
    for (const [name, watched] of this.#services) this.#close(name, watched);
  }

  #open(name: string): Watched {
    const stop = new AbortController();
    const opened = Promise.withResolvers<void>();
    const service = new Service(name, opened.promise);
    const watched: Watched = { service, holders: 0, stop };
    this.#services.set(name, watched);
    this.#discovery
      .openServiceSet(name, { signal: stop.signal, log: this.#log })
      .then((set) => {
        watched.update = () => {
          if (!stop.signal.aborted) this.#update(service, set.instances, set.leader);
        };
        set.onChange(watched.update);
        watched.update();
      })
      .catch((error: unknown) => {
        if (!stop.signal.aborted)
          this.#log.error({ err: error, service: name }, `cannot watch ${name}: ${messageOf(error)}`);
      })
      .finally(opened.resolve);
    return watched;
  }

  #close(name: string, { service, stop }: Watched): void {
    this.#services.delete(name);
    stop.abort();
    this.#replace(service, []);
    service.tellChanged();
  }

  /** A part may go back to a release without a certificate, and discovery has nothing new to tell of it. */
  #look(): void {
    const isEverybodyKnown = this.#identity?.isEverybodyKnown === true;
    if (isEverybodyKnown === this.#isEverybodyKnown) return;
    this.#isEverybodyKnown = isEverybodyKnown;
    for (const [name, { update }] of this.#services) if (platformServices.has(name)) update?.();
  }

  #update(service: Service, told: readonly Instance[], leader: Instance | undefined): void {
    // People's tokens are sent to the platform's parts: to jobs that agents announced as such, and to nobody beside them.
    const isPart = this.#identity !== undefined && platformServices.has(service.name);
    const instances = isPart ? told.filter(isOfAgent) : told;
    const whoElse = isPart && this.#isEverybodyKnown ? service.name : undefined;
    const known = new Map(service.backends.map((backend) => [backend.address, backend]));
    const backends = new Map<string, Backend>();
    const roles = rolesOf(instances);
    const ids = Map.groupBy(instances, ({ address }) => address);
    for (const { address, attributes } of instances) {
      const { mutual } = this.#identity === undefined ? {} : asRole(roles.get(address) ?? whoElse, this.#identity);
      const before = known.get(address);
      // Under its address is somebody else than before: what is open goes on, and nothing new goes over it.
      const same = before?.mutual?.server === mutual?.server ? before : undefined;
      const backend = backends.get(address) ?? same ?? new Backend(service.name, address, mutual);
      backend.release = attributes[releaseAttribute];
      backend.instanceIds = new Set(ids.get(address)?.map(({ id }) => id));
      backends.set(address, backend);
    }
    this.#replace(service, [...backends.values()]);
    service.leader = leader === undefined ? undefined : backends.get(leader.address);
    service.tellChanged();
  }

  #replace(service: Service, backends: readonly Backend[]): void {
    const staying = new Set(backends);
    for (const backend of service.backends) {
      if (staying.has(backend)) continue;
      backend.leave(this.#onRest);
      if (backend.inFlight > 0) this.#leaving.add(backend);
    }
    service.backends = backends;
    service.leader = undefined;
    readmitBeyondHalf(backends, performance.now());
  }
}

/**
 * The app that each address is known as, by its agent's word. While one is replaced two may share an address: then both have to
 * be.
 */
function rolesOf(instances: readonly Instance[]): ReadonlyMap<string, string | undefined> {
  const roles = new Map<string, string | undefined>();
  for (const { address, attributes } of instances) {
    const role = attributes[identityAttribute];
    roles.set(address, roles.has(address) && roles.get(address) !== role ? undefined : role);
  }
  return roles;
}

function asRole(app: string | undefined, identity: LiveIdentity): ReturnType<typeof asPart> {
  return app === undefined ? {} : asPart(app, identity);
}
