/** Which hosts are of the cluster, those that are away included? */
import { cellKeys, hostRecordSchema, hostSettingsSchema } from '@flynn/scheduler/cell';
import type { HostRecord, OperatorSettings } from '@flynn/scheduler/cell';
import { decodeJson } from '@flynn/store/codec';
import type { Store } from '@flynn/store/store';
import type { KnownHost } from '../api.ts';
import { leasePrefix, leaseSchema } from '../network/lease.ts';

const noSettings = hostSettingsSchema.parse({});

/** Where a member of another store would be, if a host that is away had one: addresses of those that joined and are not there. */
export async function awayAddresses(store: Pick<Store, 'list'>, call: { signal: AbortSignal }): Promise<string[]> {
  const [hosts, leases] = await Promise.all([store.list(cellKeys.hosts, call), store.list(leasePrefix, call)]);
  const present = new Set(hosts.entries.map(({ key }) => key.slice(cellKeys.hosts.length)));
  return (
    leases.entries
      .map(({ key, value }) => decodeJson(leaseSchema, value, key))
      // Behind NAT there are no members.
      .filter(({ hostId, site }) => site === undefined && !present.has(hostId))
      .map(({ address }) => address)
  );
}

/** Those that are there, those that joined, and those something is wanted of; by id. */
export async function knownHosts(store: Pick<Store, 'list'>, call: { signal: AbortSignal }): Promise<KnownHost[]> {
  const [hosts, operators, leases] = await Promise.all([
    store.list(cellKeys.hosts, call),
    store.list(cellKeys.settings, call),
    store.list(leasePrefix, call),
  ]);
  const records = new Map<string, HostRecord>();
  for (const { key, value } of hosts.entries) {
    records.set(key.slice(cellKeys.hosts.length), decodeJson(hostRecordSchema, value, key));
  }
  const wanted = new Map<string, OperatorSettings>();
  for (const { key, value } of operators.entries) {
    wanted.set(key.slice(cellKeys.settings.length), decodeJson(hostSettingsSchema, value, key));
  }
  const joined = leases.entries.map(({ key }) => key.slice(leasePrefix.length));
  const ids = new Set([...records.keys(), ...wanted.keys(), ...joined]);
  return [...ids].toSorted().map((id): KnownHost => {
    const [record, settings] = [records.get(id), wanted.get(id) ?? noSettings];
    return record === undefined ? { id, settings } : { id, record, settings };
  });
}
