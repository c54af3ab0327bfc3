/**
 * The Registry port: who answers where, and the contract every driver keeps. There are two: on a Store
 * (`store-registry.ts`, shared by a cluster) and in memory (`memory-registry.ts`, for one process).
 *
 * Instances. `register` announces one under a service and an id, or changes it. It is there until it is deregistered, or
 * its announcer is gone: with `ttlSeconds` it has to be registered again within that time (the heartbeat); without, the
 * process of the registry vouches for it, and it outlives that by the registry's own TTL at most. A heartbeat that says
 * nothing new writes nothing and is no change. If the registry's process dies the TTL starts again at its death: who was
 * heard by nobody since is gone within one more TTL, and who is heard by another process in time was never away.
 *
 * Age. `createdRevision` rises from registration to registration and stays while an instance does: registering again does
 * not make it younger, coming back does.
 *
 * Leader. The oldest instance, or the one chosen by hand. Choosing is for the instance's id: it leads whenever it is there
 * and nobody does when it is not. Leadership is for routing, not for mutual exclusion.
 *
 * Meta. One JSON document per service with a version that rises with every write. `setMeta` compares before it writes:
 * `version: 0` creates only, `version: n` replaces exactly that, none replaces anything; `conflict` otherwise, with
 * `detail.reason` `exists` or `mismatch` and `detail.version`, the version that is there (0 for none). `leader` chooses in
 * the same step: nobody sees one without the other being decided.
 *
 * Vouched for. A process that says so of a service is, with others like it, the only one to announce it. Every registry of the
 * store knows that from then on, whether or not the service has instances, until 20 days after the last such process has ended
 * or named it no more (in memory: for the life of the process). Days count that some process of the store was there from
 * beginning to end. Registries take what they are told all the same: who lets others announce asks first.
 *
 * Reads are of this process's memory: no waiting, never an error. They see what this registry wrote before, what others
 * wrote soon, and while the store is away what they saw last. What is handed out is frozen or never changed.
 *
 * Subscriptions begin with the current set, then `current`, then every true change in order, until the signal aborts or
 * the registry is disposed of, which is no error. No reader keeps another from its events: one that falls a bounded number
 * of events behind gets `lagged`, the difference to what is, and `current`.
 *
 * Errors of writes: `invalid` for what can never be registered, `conflict`, and `unavailable` or `timeout` while the store
 * is away. A `register` or `deregister` that failed so is carried out when the store is back; `setMeta` and `chooseLeader`
 * may or may not have been.
 */
import type { DiscoveryEvent, Instance, LeaderChoice, ServiceMeta } from './api.ts';

export type Registration = { service: string; id: string; address: string; attributes?: Record<string, string> };

export type MetaWrite = { data: ServiceMeta['data']; version?: number | undefined; leader?: string | undefined };

/** Gets what changed of one service at once, after it did. */
export type RegistryListener = (service: string, events: readonly DiscoveryEvent[]) => void;

export interface RegistryReads {
  /** Those that have instances, by name. */
  services(): readonly { name: string; instances: number }[];
  /** Oldest first. */
  instances(service: string): readonly Instance[];
  /** Of all services: by service, then oldest first. */
  all(): readonly Instance[];
  leader(service: string): Instance | undefined;
  leaderChoice(service: string): LeaderChoice;
  meta(service: string): ServiceMeta | undefined;
  /** How many services have a meta or a leader that was chosen: these stay until somebody removes them. */
  countLasting(): number;
  isVouchedFor(service: string): boolean;
  subscribe(service: string, options: { signal: AbortSignal }): AsyncIterable<DiscoveryEvent>;
  subscribeAll(options: { signal: AbortSignal }): AsyncIterable<DiscoveryEvent>;
  /** Called for every change from now on; answers the function that ends it. */
  onChange(listener: RegistryListener): () => void;
}

/** Disposing of a registry takes nothing back: what it announced lasts for its TTL, for the next process to take over. */
export interface Registry extends RegistryReads, AsyncDisposable {
  /**
   * `lease` binds the instance to that lease of the driver's store instead; the caller registers it again on the next one.
   * Rejects with `conflict` if it was taken back meanwhile.
   */
  register(
    registration: Registration,
    options?: { ttlSeconds?: number; lease?: { readonly id: string; readonly lost: AbortSignal } },
  ): Promise<Instance>;
  /** Whoever announced it. One that is not there is fine. */
  deregister(service: string, id: string): Promise<void>;
  /**
   * These from now on, and none that were named before. Known here at once, elsewhere soon, or once the store is back. What is no
   * name of a service is passed over.
   */
  vouchFor(services: readonly string[]): void;
  setMeta(service: string, write: MetaWrite): Promise<ServiceMeta>;
  /** One that is not there is fine. */
  removeMeta(service: string): Promise<void>;
  chooseLeader(service: string, choice: LeaderChoice): Promise<void>;
}
