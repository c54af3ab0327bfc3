/** What operators want of hosts, written straight to the cell: it works when all of Layer 1 is down. */
import { FlynnError } from '@flynn/kit/errors';
import { cellKeys, hostRecordSchema, hostSettingsSchema } from '@flynn/scheduler/cell';
import type { OperatorSettings } from '@flynn/scheduler/cell';
import { cordoned, drained, opened, undrained } from '@flynn/scheduler/operator-settings';
import type { Store } from '@flynn/store/store';
import type { KnownHost, SettingsChange } from '../api.ts';

type Call = { signal: AbortSignal };

/** Also hosts that are away but have settings or statuses of theirs. */
export async function listHosts(store: Pick<Store, 'list'>, call: Call): Promise<KnownHost[]> {
  const [records, settings, statuses] = await Promise.all([
    store.list(cellKeys.hosts, call),
    store.list(cellKeys.settings, call),
    store.list(cellKeys.status, call),
  ]);
  const hosts = new Map<string, KnownHost>();
  for (const { key } of statuses.entries) {
    const [id = ''] = key.slice(cellKeys.status.length).split('/');
    hosts.set(id, { id, settings: hostSettingsSchema.parse({}) });
  }
  for (const { key, value } of settings.entries) {
    const id = key.slice(cellKeys.settings.length);
    hosts.set(id, { id, settings: hostSettingsSchema.parse(JSON.parse(value)) });
  }
  for (const { key, value } of records.entries) {
    const id = key.slice(cellKeys.hosts.length);
    const record = hostRecordSchema.parse(JSON.parse(value));
    hosts.set(id, { id, record, settings: hosts.get(id)?.settings ?? hostSettingsSchema.parse({}) });
  }
  return [...hosts.values()].toSorted((a, b) => (a.id < b.id ? -1 : 1));
}

export async function readSettings(store: Pick<Store, 'get'>, hostId: string, call: Call): Promise<OperatorSettings> {
  const entry = await store.get(cellKeys.hostSettings(hostId), call);
  return hostSettingsSchema.parse(entry === undefined ? {} : JSON.parse(entry.value));
}

/** `not_found` for a host that nobody ever heard of: a typing mistake must not be kept as a wish. */
export async function changeSettings(
  store: Pick<Store, 'get' | 'transact'>,
  hostId: string,
  change: SettingsChange,
  options: Call & { now: number },
): Promise<OperatorSettings> {
  const key = cellKeys.hostSettings(hostId);
  const call = { signal: options.signal };
  for (;;) {
    const [known, record] = await Promise.all([store.get(key, call), store.get(cellKeys.host(hostId), call)]);
    if (known === undefined && record === undefined) {
      throw new FlynnError('not_found', `there is no host ${hostId}: "flynn-host list" names them`);
    }
    const before = hostSettingsSchema.parse(known === undefined ? {} : JSON.parse(known.value));
    const after = settingsAfter(before, change, options.now);
    const { succeeded } = await store.transact(
      { compare: [{ key, modRevision: known?.modRevision ?? 0 }], then: [{ put: key, value: JSON.stringify(after) }] },
      call,
    );
    if (succeeded) return after;
  }
}

/** First whether it is cordoned, then its drain: who is opened does not drain, unless that is asked for too. */
export function settingsAfter(before: OperatorSettings, change: SettingsChange, now: number): OperatorSettings {
  const tags = Object.entries({ ...before.tags, ...change.tags }).flatMap(([name, value]) =>
    value === null ? [] : [[name, value] as const],
  );
  const tagged = { ...before, tags: Object.fromEntries(tags) };
  const settings = change.cordoned === undefined ? tagged : change.cordoned ? cordoned(tagged) : opened(tagged);
  if (change.drain === undefined) return settings;
  return change.drain === null ? undrained(settings) : drained(settings, change.drain, now);
}
