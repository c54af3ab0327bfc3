/** From when on does the cluster seal its secrets? */
import { newId } from '@flynn/kit/ids';
import { cellKeys, hostRecordSchema } from '@flynn/scheduler/cell';
import { decodeJson } from '@flynn/store/codec';
import { sealKeyOf } from '@flynn/store/sealing/envelope';
import { makeRing, readRing } from '@flynn/store/sealing/ring';
import type { Store } from '@flynn/store/store';
import { commands } from '../origin.ts';
import type { Cluster } from '../settings.ts';

/** Says which sealing key the cluster's controllers have: those of old have none. */
const controllersKey = '/flynn/keys/controllers';

/** Called once all controllers were given the key. */
export async function tellControllersSeal(store: Store, { sealingKey }: Cluster): Promise<void> {
  const { id } = sealKeyOf(sealingKey);
  if ((await store.get(controllersKey))?.value === id) return;
  await store.transact({ then: [{ put: controllersKey, value: id }] });
}

/**
 * Seals from now on, if everybody who reads the store can open what is sealed: in a new cluster at once, in one of old
 * when its controllers and its last host have been brought up to date. Answers with what it still waits for.
 */
export async function ensureSealing(store: Store, { sealingKey }: Cluster): Promise<readonly string[]> {
  if ((await readRing(store)) !== undefined) return [];
  const own = sealKeyOf(sealingKey);
  if (!(await isNew(store))) {
    const missing = await whoCannotRead(store, own.id);
    if (missing.length > 0) return missing;
  }
  await makeRing(store, { sealingKey: own, newId, now: new Date() });
  return [];
}

async function isNew(store: Store): Promise<boolean> {
  const lists = await Promise.all(
    ['/flynn/resource/', cellKeys.workloads].map((prefix) => store.list(prefix, { newest: 1 })),
  );
  return lists.every(({ entries }) => entries.length === 0);
}

async function whoCannotRead(store: Store, keyId: string): Promise<string[]> {
  const [controllers, { entries }] = await Promise.all([store.get(controllersKey), store.list(cellKeys.hosts)]);
  const hosts = entries.map(({ key, value }) => decodeJson(hostRecordSchema, value, key));
  const old = hosts.filter((host) => host.sealingKeyId !== keyId).map(({ id }) => `host ${id}`);
  return controllers?.value === keyId ? old : ['the platform', ...old];
}

/** What has to be of this version, too, before anything is sealed. */
export function unsealedText(missing: readonly string[]): string {
  if (missing.length === 0) return '';
  return `; secrets stay in clear in the store until ${commands.up} has run there too: ${missing.join(', ')}`;
}
