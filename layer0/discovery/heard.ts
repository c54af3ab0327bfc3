/** What is taken over HTTP, and how much of it? What a registry's own process announces goes past these rules. */
import { FlynnError } from '@flynn/kit/errors';
import type { Instance, ServiceMeta } from './api.ts';
import { groupAttribute, identityAttribute, isJobOfApp, isOfAgent, platformServices } from './parts.ts';
import type { RegistryReads } from './registry.ts';

const maxInstancesOfOne = 500;
const maxAttributeBytes = 16 * 1_024;
const maxMetaBytes = 16 * 1_024;
/** Of the whole cluster: every host keeps them in memory, and they stay until somebody removes them. */
const maxLasting = 500;

/** Who may reach an instance, and as whom it is known, follows from these: only host agents say them, of what they run. */
const reserved = [groupAttribute, identityAttribute];

type Known = Pick<RegistryReads, 'instances' | 'isVouchedFor'>;

/**
 * Throws `denied` for services of the platform and of apps, whether or not anything of them is there at the moment: whoever took
 * such a name, or said who leads there, would be sent what is meant for others.
 */
export function checkService(service: string, registry: Known): void {
  const whose = ownerOf(service, registry);
  if (whose === undefined) return;
  const why = `${service} is a service of ${whose}: host agents alone announce and change it`;
  throw new FlynnError('denied', `${why}; take another name for what is announced over HTTP`);
}

/** Whose agents alone announce and change it; undefined where others may. */
export function ownerOf(service: string, registry: Known): 'the platform' | 'an app' | undefined {
  if (platformServices.has(service)) return 'the platform';
  return isOfApp(service, registry) ? 'an app' : undefined;
}

/** Agents of a version before do not write down what they vouch for. */
function isOfApp(service: string, registry: Known): boolean {
  return registry.isVouchedFor(service) || registry.instances(service).some(isJobOfApp);
}

/** Throws `denied` for an instance that an agent announced, of whatever service. */
export function checkInstance(service: string, id: string, registry: Known): void {
  const known = find(service, id, registry);
  if (known === undefined || !isOfAgent(known)) return;
  throw new FlynnError(
    'denied',
    `${service}/${id} is a job: the agent of its host alone announces it and takes it back`,
  );
}

/**
 * Throws `denied` for what was not announced over HTTP. What was is taken back also once its service is an app's: that is how its
 * former holder leaves.
 */
export function checkTakingBack(service: string, id: string, registry: Known): void {
  checkInstance(service, id, registry);
  if (platformServices.has(service) || find(service, id, registry) === undefined) checkService(service, registry);
}

function find(service: string, id: string, registry: Known): Instance | undefined {
  return registry.instances(service).find((instance) => instance.id === id);
}

/** Throws `denied` or `invalid`. */
export function checkAttributes(attributes: Record<string, string>): void {
  const given = reserved.find((name) => name in attributes);
  if (given !== undefined) {
    throw new FlynnError('denied', `the attribute ${given} is given by host agents: announce without it`);
  }
  checkBytes('the attributes of an instance', attributes, maxAttributeBytes);
}

/** Throws `invalid` or `exhausted`. */
export function checkMeta(
  service: string,
  data: ServiceMeta['data'],
  registry: Pick<RegistryReads, 'meta' | 'leaderChoice' | 'countLasting'>,
): void {
  checkBytes(`the meta of ${service}`, data, maxMetaBytes);
  checkLasting(service, registry);
}

/** For what stays until it is removed. Throws `exhausted`. */
export function checkLasting(
  service: string,
  registry: Pick<RegistryReads, 'meta' | 'leaderChoice' | 'countLasting'>,
): void {
  const hasSome = registry.meta(service) !== undefined || registry.leaderChoice(service).by !== 'oldest';
  if (hasSome || registry.countLasting() < maxLasting) return;
  throw new FlynnError(
    'exhausted',
    `${maxLasting} services have a meta or a leader that was chosen, as many as there may be: remove one that is not needed ` +
      '(flynn-discovery meta NAME --remove, flynn-discovery leader NAME --oldest)',
  );
}

function checkBytes(what: string, value: unknown, most: number): void {
  const bytes = Buffer.byteLength(JSON.stringify(value));
  if (bytes <= most) return;
  throw new FlynnError('invalid', `${what} may have ${most} bytes as JSON, and these are ${bytes}: say less`);
}

/** How many instances each asker has announced, as far as they have not run out. */
export class HeardInstances {
  readonly #now: () => number;
  /** By asker, then by instance: when it has run out. */
  readonly #askers = new Map<string, Map<string, number>>();

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Throws `exhausted` for one more than an asker may have. */
  note(asker: string, service: string, id: string, ttlSeconds: number): void {
    const held = this.#askers.get(asker) ?? new Map<string, number>();
    const key = `${service}/${id}`;
    if (!held.has(key) && held.size >= maxInstancesOfOne) {
      for (const [other, endsMs] of held) if (endsMs <= this.#now()) held.delete(other);
      if (held.size >= maxInstancesOfOne) {
        const most = `${maxInstancesOfOne} instances are announced from ${asker}, as many as there may be`;
        throw new FlynnError('exhausted', `${most}: take some back, or wait until they have run out`);
      }
    }
    held.set(key, this.#now() + ttlSeconds * 1_000);
    this.#askers.set(asker, held);
  }

  forget(service: string, id: string): void {
    for (const [asker, held] of this.#askers) {
      held.delete(`${service}/${id}`);
      if (held.size === 0) this.#askers.delete(asker);
    }
  }
}
