/** What is known of services, and which events lead from one state of knowledge to another? */
import type { DiscoveryEvent, Instance, ServiceMeta } from './api.ts';
import { isSameInstance, oldestFirst } from './instances.ts';

export type ServiceState = Readonly<{
  instances: ReadonlyMap<string, Instance>;
  leader: Instance | undefined;
  meta: ServiceMeta | undefined;
}>;

const nothing: ServiceState = { instances: new Map(), leader: undefined, meta: undefined };

/** None for what is the same in both. New ones come first: no gap between a down and its up. */
export function diffService(service: string, before: ServiceState, after: ServiceState): DiscoveryEvent[] {
  const events: DiscoveryEvent[] = [];
  for (const instance of oldestFirst(after.instances)) {
    const old = before.instances.get(instance.id);
    if (old === undefined) events.push({ event: 'up', instance });
    else if (!isSameInstance(old, instance)) events.push({ event: 'update', instance });
  }
  for (const instance of oldestFirst(before.instances)) {
    if (!after.instances.has(instance.id)) events.push({ event: 'down', instance });
  }
  const { leader, meta } = after;
  if (!isSameInstance(before.leader, leader)) events.push({ event: 'leader', service, instance: leader });
  if (before.meta?.version !== meta?.version) events.push({ event: 'meta', service, meta });
  return events;
}

type Known = { instances: Map<string, Instance>; leader: Instance | undefined; meta: ServiceMeta | undefined };

/** What a reader was told: events folded into states. */
export class KnownServices {
  readonly #services = new Map<string, Known>();

  get services(): ReadonlyMap<string, ServiceState> {
    return this.#services;
  }

  /** False when the event says nothing new. */
  apply(event: DiscoveryEvent): boolean {
    switch (event.event) {
      case 'up':
      case 'update':
      case 'down': {
        const { instance } = event;
        const known = this.#of(instance.service);
        const after = event.event === 'down' ? undefined : instance;
        if (isSameInstance(known.instances.get(instance.id), after)) return false;
        if (after === undefined) known.instances.delete(instance.id);
        else known.instances.set(instance.id, after);
        this.#dropIfEmpty(instance.service, known);
        return true;
      }
      case 'leader':
      case 'meta': {
        const known = this.#of(event.service);
        const before = { ...known };
        if (event.event === 'leader') known.leader = event.instance;
        else known.meta = event.meta;
        this.#dropIfEmpty(event.service, known);
        return diffService(event.service, before, known).length > 0;
      }
      case 'lagged':
      case 'current':
        return true;
      default:
        return event satisfies never;
    }
  }

  /** The events that lead from here to there; they are applied already. */
  catchUp(target: ReadonlyMap<string, ServiceState>): DiscoveryEvent[] {
    const events: DiscoveryEvent[] = [];
    for (const service of new Set([...target.keys(), ...this.#services.keys()])) {
      events.push(...diffService(service, this.#services.get(service) ?? nothing, target.get(service) ?? nothing));
    }
    for (const event of events) this.apply(event);
    return events;
  }

  #of(service: string): Known {
    const known = this.#services.get(service) ?? { instances: new Map(), leader: undefined, meta: undefined };
    this.#services.set(service, known);
    return known;
  }

  #dropIfEmpty(service: string, known: Known): void {
    const isEmpty = known.instances.size === 0 && known.leader === undefined && known.meta === undefined;
    if (isEmpty) this.#services.delete(service);
  }
}
