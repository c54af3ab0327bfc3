/** Which hosts have a router, the door for everybody? All but those tagged `router=no`: a worker host runs jobs, and no router. */
import type { processSchema } from '@flynn/controller/processes/process';
import { listHosts } from '@flynn/host-agent/hosts/settings';
import { FlynnError } from '@flynn/kit/errors';
import { attributesOf, failedConstraint } from '@flynn/scheduler/feasible';
import type { Store } from '@flynn/store/store';
import type { z } from 'zod';
import { leasesOf } from '../joining/admission.ts';

const noDoor = { attribute: 'router', operator: 'not_in' as const, values: ['no'] };

export const doorConstraints: NonNullable<z.output<typeof processSchema>['constraints']> = [noDoor];

const readMs = 30_000;

/** Ids of the hosts that are to have none, those that are away among them. */
async function workerHosts(store: Pick<Store, 'list'>): Promise<ReadonlySet<string>> {
  const hosts = await listHosts(store, { signal: AbortSignal.timeout(readMs) });
  const workers = hosts.filter(({ id, record, settings }) => {
    const attributes = record === undefined ? settings.tags : attributesOf(record, settings);
    return failedConstraint(id, attributes, [noDoor]) !== undefined;
  });
  return new Set(workers.map(({ id }) => id));
}

/** Of the hosts that have one: where names of the cluster's domain lead. */
export async function doorAddresses(store: Store): Promise<string[]> {
  const [leases, workers] = await Promise.all([leasesOf(store), workerHosts(store)]);
  // The router of a host behind NAT is for those who are there, too.
  return leases.flatMap(({ hostId, address, site }) => (workers.has(hostId) || site !== undefined ? [] : [address]));
}

/** `conflict` on a host without: who brings the platform up asks it as everybody does, at the door of this host. */
export async function checkDoor(store: Pick<Store, 'list'>, hostId: string): Promise<void> {
  if (!(await workerHosts(store)).has(hostId)) return;
  throw new FlynnError(
    'conflict',
    `${hostId} is tagged router=no, and the host that keeps the platform needs its router: the platform is looked after through it. flynn-host tags router= gives it back; then run the same command again`,
  );
}
