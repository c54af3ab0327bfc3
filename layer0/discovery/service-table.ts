/**
 * All services as one process knows them, and whoever follows them: the part every registry has, wherever its changes come
 * from.
 */
import { messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import type { DiscoveryEvent, Instance, LeaderChoice, ServiceMeta } from './api.ts';
import { leaderOf } from './election.ts';
import { isSameInstance, oldestFirst } from './instances.ts';
import type { RegistryListener, RegistryReads } from './registry.ts';
import { Subscription } from './subscription.ts';

type Row = {
  instances: Map<string, Instance>;
  /** Made when asked for, after each change. */
  list: readonly Instance[] | undefined;
  choice: LeaderChoice;
  leader: Instance | undefined;
  meta: ServiceMeta | undefined;
};

const oldest: LeaderChoice = { by: 'oldest' };
const nobody: readonly Instance[] = Object.freeze([]);

/** INVARIANTS. Changes come in through `change*`, one at a time; its events are told to everybody before it returns. */
export class ServiceTable implements Omit<RegistryReads, 'isVouchedFor'> {
  readonly #rows = new Map<string, Row>();
  readonly #followers = new Map<string, Set<Subscription>>();
  readonly #followersOfAll = new Set<Subscription>();
  readonly #listeners = new Set<RegistryListener>();
  readonly #log: Logger;
  readonly #queueLimit: number;

  constructor(options: { log: Logger; queueLimit?: number }) {
    this.#log = options.log;
    this.#queueLimit = options.queueLimit ?? 1_000;
  }

  changeInstance(service: string, id: string, after: Instance | undefined): void {
    const row = this.#rowOf(service);
    const before = row.instances.get(id);
    const events: DiscoveryEvent[] = [];
    if (!isSameInstance(before, after)) {
      if (after !== undefined) {
        row.instances.set(id, after);
        events.push({ event: before === undefined ? 'up' : 'update', instance: after });
      } else if (before !== undefined) {
        row.instances.delete(id);
        events.push({ event: 'down', instance: before });
      }
      row.list = undefined;
    }
    this.#settle(service, row, events);
  }

  changeChoice(service: string, choice: LeaderChoice | undefined): void {
    const row = this.#rowOf(service);
    row.choice = choice ?? oldest;
    this.#settle(service, row, []);
  }

  changeMeta(service: string, meta: ServiceMeta | undefined): void {
    const row = this.#rowOf(service);
    const isSame = row.meta?.version === meta?.version;
    row.meta = meta;
    this.#settle(service, row, isSame ? [] : [{ event: 'meta', service, meta }]);
  }

  services(): readonly { name: string; instances: number }[] {
    return [...this.#rows]
      .filter(([, row]) => row.instances.size > 0)
      .map(([name, row]) => ({ name, instances: row.instances.size }))
      .sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  instance(service: string, id: string): Instance | undefined {
    return this.#rows.get(service)?.instances.get(id);
  }

  instances(service: string): readonly Instance[] {
    const row = this.#rows.get(service);
    return row === undefined ? nobody : (row.list ??= oldestFirst(row.instances));
  }

  all(): readonly Instance[] {
    return this.services().flatMap(({ name }) => this.instances(name));
  }

  leader(service: string): Instance | undefined {
    return this.#rows.get(service)?.leader;
  }

  leaderChoice(service: string): LeaderChoice {
    return this.#rows.get(service)?.choice ?? oldest;
  }

  meta(service: string): ServiceMeta | undefined {
    return this.#rows.get(service)?.meta;
  }

  countLasting(): number {
    return [...this.#rows.values()].filter((row) => row.meta !== undefined || row.choice.by !== 'oldest').length;
  }

  async *subscribe(service: string, { signal }: { signal: AbortSignal }): AsyncGenerator<DiscoveryEvent> {
    const group = this.#followers.get(service) ?? new Set();
    this.#followers.set(service, group);
    const state = () => {
      const row = this.#rows.get(service);
      return new Map(row === undefined ? [] : [[service, row]]);
    };
    try {
      yield* this.#follow(group, state, signal);
    } finally {
      if (group.size === 0 && this.#followers.get(service) === group) this.#followers.delete(service);
    }
  }

  subscribeAll({ signal }: { signal: AbortSignal }): AsyncIterable<DiscoveryEvent> {
    return this.#follow(this.#followersOfAll, () => this.#rows, signal);
  }

  onChange(listener: RegistryListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Ends every subscription. */
  close(): void {
    for (const group of [...this.#followers.values(), this.#followersOfAll]) {
      for (const subscription of group) subscription.end();
    }
  }

  async *#follow(
    group: Set<Subscription>,
    state: () => ReadonlyMap<string, Row>,
    signal: AbortSignal,
  ): AsyncGenerator<DiscoveryEvent> {
    const subscription = new Subscription({ limit: this.#queueLimit, state });
    group.add(subscription);
    const end = () => subscription.end();
    signal.addEventListener('abort', end, { once: true });
    if (signal.aborted) end();
    try {
      yield* subscription.read();
    } finally {
      signal.removeEventListener('abort', end);
      group.delete(subscription);
    }
  }

  #rowOf(service: string): Row {
    return (
      this.#rows.get(service) ?? {
        instances: new Map(),
        list: undefined,
        choice: oldest,
        leader: undefined,
        meta: undefined,
      }
    );
  }

  #settle(service: string, row: Row, events: DiscoveryEvent[]): void {
    const leader = leaderOf(row.instances, row.choice);
    if (!isSameInstance(row.leader, leader)) events.push({ event: 'leader', service, instance: leader });
    row.leader = leader;
    const isEmpty = row.instances.size === 0 && row.meta === undefined && row.choice.by === 'oldest';
    if (isEmpty) this.#rows.delete(service);
    else this.#rows.set(service, row);
    if (events.length === 0) return;
    for (const subscription of this.#followers.get(service) ?? []) subscription.push(events);
    for (const subscription of this.#followersOfAll) subscription.push(events);
    for (const listener of this.#listeners) this.#tell(listener, service, events);
  }

  #tell(listener: RegistryListener, service: string, events: readonly DiscoveryEvent[]): void {
    try {
      listener(service, events);
    } catch (error) {
      // One listener's fault must not keep the change from the others.
      this.#log.error({ err: error, service }, `a listener of discovery failed: ${messageOf(error)}`);
    }
  }
}
