/** The registry in memory: for one process, without a store. */
import { FlynnError } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { z } from 'zod';
import type { Instance, LeaderChoice, ServiceMeta } from './api.ts';
import { Expiries } from './expiries.ts';
import { checkChoice, checkRegistration, checkService, metaConflict } from './registration.ts';
import type { MetaWrite, Registration, Registry } from './registry.ts';
import { ServiceTable } from './service-table.ts';

/** A lease, if one is given, counts by its `lost`. */
export function createMemoryRegistry(options: { log: Logger; queueLimit?: number }): Registry {
  return new MemoryRegistry(options);
}

class MemoryRegistry extends ServiceTable implements Registry {
  readonly #expiries = new Expiries();
  readonly #leases = new Map<string, AbortSignal>();
  readonly #vouched = new Set<string>();
  #revision = 0;

  async register(
    registration: Registration,
    { ttlSeconds, lease }: { ttlSeconds?: number; lease?: { lost: AbortSignal } } = {},
  ): Promise<Instance> {
    const { service, id, address, attributes } = checkRegistration(registration);
    const key = `${service}/${id}`;
    if (lease?.lost.aborted === true) throw new FlynnError('not_found', `the lease for ${key} has expired`);
    const known = this.instance(service, id);
    const instance = Object.freeze({
      service,
      id,
      address,
      attributes: Object.freeze({ ...attributes }),
      createdRevision: known?.createdRevision ?? (this.#revision += 1),
    });
    const remove = () => this.#remove(service, id);
    if (ttlSeconds === undefined) this.#expiries.forget(key);
    else this.#expiries.keepFor(ttlSeconds, key, remove);
    this.#leases.delete(key);
    if (lease !== undefined) {
      this.#leases.set(key, lease.lost);
      lease.lost.addEventListener(
        'abort',
        () => {
          if (this.#leases.get(key) === lease.lost) remove();
        },
        { once: true },
      );
    }
    this.changeInstance(service, id, instance);
    return instance;
  }

  isVouchedFor(service: string): boolean {
    return this.#vouched.has(service);
  }

  vouchFor(services: readonly string[]): void {
    for (const service of services) this.#vouched.add(service);
  }

  async deregister(service: string, id: string): Promise<void> {
    this.#remove(service, id);
  }

  async setMeta(service: string, { data, version, leader }: MetaWrite): Promise<ServiceMeta> {
    checkService(service);
    const found = this.meta(service)?.version ?? 0;
    if (version !== undefined && version !== found) throw metaConflict(service, version, found);
    if (leader !== undefined) this.changeChoice(service, checkChoice({ by: 'manual', instance: leader }));
    // What the caller does to its own document later is no write.
    const meta = { data: z.json().parse(structuredClone(data)), version: (this.#revision += 1) };
    this.changeMeta(service, meta);
    return meta;
  }

  async removeMeta(service: string): Promise<void> {
    this.changeMeta(checkService(service), undefined);
  }

  async chooseLeader(service: string, choice: LeaderChoice): Promise<void> {
    this.changeChoice(checkService(service), checkChoice(choice));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#expiries.stop();
    this.close();
  }

  #remove(service: string, id: string): void {
    this.#expiries.forget(`${service}/${id}`);
    this.#leases.delete(`${service}/${id}`);
    this.changeInstance(service, id, undefined);
  }
}
