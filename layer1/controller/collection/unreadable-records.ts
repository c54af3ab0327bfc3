/**
 * Gives up a record that cannot be read: somebody says so, by its key. What it was is gone for good, and what it alone refers to
 * goes with the next round; all others are collected again, and an app that waited for it is deleted.
 */
import { FlynnError } from '@flynn/kit/errors';
import { nameKey, resourceKey } from '@flynn/resource/keys';
import { decodeResource, envelopeIn, isUnreadable } from '@flynn/resource/record';
import type { AnyType, Owner } from '@flynn/resource/type';
import type { Entry } from '@flynn/store/store';
import { keptTypes } from '../apps/deletion.ts';
import { datastoreBackupType } from '../datastore-backups/types.ts';
import { archiveType, historyType } from '../datastore-history/types.ts';
import type { Deps } from '../deps.ts';
import { operationLock } from '../operations/writer.ts';
import { appType, artifactType, deploymentType, operationType, releaseType } from '../resources.ts';
import type { AppResource, OperationResource, ReleaseResource } from '../resources.ts';

/** Of what keeps a round from ending all but apps: what runs of one would be nobody's. */
const collectedTypes: ReadonlySet<AnyType> = new Set<AnyType>([
  releaseType,
  artifactType,
  operationType,
  datastoreBackupType,
  historyType,
  archiveType,
]);

/**
 * With its name. Of other types only what belongs to something that is being deleted, which waits for it. `invalid` where it is no
 * record that is given up, `not_found` where it is not there, `conflict` where it can be read, or is of something that stays.
 */
export async function forgetUnreadable(
  deps: Pick<Deps, 'store' | 'resources' | 'kinds' | 'operations' | 'writer'>,
  key: string,
  signal: AbortSignal,
): Promise<void> {
  const { store } = deps;
  const { type, id } = placeOf(deps, key);
  const entry = await store.get(key, { signal });
  if (entry === undefined)
    throw new FlynnError('not_found', `there is no record ${key}: flynn status names the one there is`);
  if (isReadable(type, entry)) {
    throw new FlynnError(
      'conflict',
      `${key} can be read, and keeps nothing from being collected or deleted: nothing was done`,
    );
  }
  const envelope = envelopeIn(entry);
  if (!(await goesWithOwner(deps, envelope, signal))) {
    if (!collectedTypes.has(type)) throw stays(key, envelope);
    await checkUnused(deps, type, id, signal);
  }
  if (type === operationType) await cancelFollowing(deps, id, signal);
  const names = await store.list(nameKey(type.name, ''), { signal });
  const own = names.entries.filter(({ value }) => value === id);
  // Of an operation that was under way: its app would wait for its end for ever.
  const locks = type === operationType ? (await store.list(operationLock(''), { signal })).entries : [];
  own.push(...locks.filter(({ value }) => value === JSON.stringify(id)));
  const { succeeded } = await store.transact(
    {
      compare: [{ key, modRevision: entry.modRevision }],
      then: [{ delete: key }, ...own.map((one) => ({ delete: one.key }))],
    },
    { signal },
  );
  if (!succeeded)
    throw new FlynnError('conflict', `${key} was changed at the same time: look whether it can be read now`);
}

/** What runs of it runs on, and the next round would take what it is started from. */
async function checkUnused(
  { resources }: Pick<Deps, 'resources'>,
  type: AnyType,
  id: string,
  signal: AbortSignal,
): Promise<void> {
  if (type !== releaseType && type !== artifactType) return;
  const isOfIt = (release: ReleaseResource) => release.spec.artifactId === id;
  const all = { signal, isStrict: true };
  const looked = Promise.all([
    type === releaseType ? [{ id }] : resources.list(releaseType, { ...all, where: isOfIt }),
    // What is being deleted is started nowhere any more.
    resources.list(appType, { ...all, where: ({ deletingSince }) => deletingSince === undefined }),
    resources.list(deploymentType, { ...all, where: ({ status }) => status.endedAt === undefined }),
  ]);
  const [ofIt, apps, deployments] = await looked.catch((error: unknown) => {
    if (!isUnreadable(error)) throw error;
    const why = `whether an app runs of it cannot be told: ${error.message}`;
    throw new FlynnError('conflict', `${why}. Mend or give up that one first`, { cause: error });
  });
  const releases = new Set(ofIt.map((one) => one.id));
  const deployed = deployments.map(({ spec }) => [spec.appId, spec.oldReleaseId, spec.newReleaseId]);
  const isUsedBy = ({ id: appId, status }: AppResource) =>
    [status.releaseId, ...deployed.filter(([ofApp]) => ofApp === appId).flat()].some((one) => releases.has(one ?? ''));
  const using = apps.find(isUsedBy);
  if (using === undefined) return;
  const { name } = using.spec;
  const mend = `go to the version of flynn that wrote it, restore a backup of the cluster, or delete ${name}`;
  throw new FlynnError('conflict', `${name} runs of it, and could be started nowhere any more: ${mend}`);
}

/** Whether who owns it waits for it, or went without it in a version before. */
async function goesWithOwner(
  { store }: Pick<Deps, 'store'>,
  { owner }: { owner?: Owner },
  signal: AbortSignal,
): Promise<boolean> {
  if (owner === undefined) return false;
  const found = await store.get(resourceKey(owner.type, owner.id), { signal });
  if (found === undefined) return true;
  const { uid, deletingSince } = envelopeIn(found);
  return deletingSince !== undefined || (owner.uid !== undefined && uid !== undefined && owner.uid !== uid);
}

function stays(key: string, { owner }: { owner?: Owner }): FlynnError {
  if (owner === undefined) {
    return new FlynnError('conflict', `${key} does not say whose it is, and nothing waits for it: nothing was deleted`);
  }
  const whose = `the ${owner.type} ${owner.id}`;
  return new FlynnError(
    'conflict',
    `${key} is of ${whose}, which is not being deleted: go to the version of flynn that wrote it, restore a backup of the cluster, or delete ${whose}`,
  );
}

/** What waits for its end never hears of one: without the record it would begin as if all had gone well. */
async function cancelFollowing(
  { operations, writer }: Pick<Deps, 'operations' | 'writer'>,
  id: string,
  signal: AbortSignal,
): Promise<void> {
  const follows = ({ spec }: OperationResource) =>
    spec.dependsOn?.includes(id) === true && spec.mayFail?.includes(id) !== true;
  const following = [...operations.snapshot.entries.values()].filter(({ value }) => follows(value));
  for (const { value } of following) {
    const reason = 'the operation before it was given up';
    await writer.apply(value.id, { type: 'cancel', isForced: true, reason }, { signal });
  }
}

function placeOf({ kinds }: Pick<Deps, 'kinds'>, key: string): { type: AnyType; id: string } {
  if (key.startsWith(resourceKey(appType.name, ''))) {
    throw new FlynnError(
      'invalid',
      `${key} is an app, and what runs of it would be nobody's: go to the version of flynn that wrote it, or restore a backup of the cluster`,
    );
  }
  const types = new Set([...collectedTypes, ...keptTypes, ...kinds.registry.all()]);
  for (const type of types) {
    const prefix = resourceKey(type.name, '');
    const id = key.startsWith(prefix) ? key.slice(prefix.length) : '';
    if (id !== '') return { type, id };
  }
  throw new FlynnError(
    'invalid',
    `"${key}" is no key of a record: flynn status names it, or what flynn get app says that an app waits for, like ${resourceKey(releaseType.name, 'ID')}`,
  );
}

function isReadable(type: AnyType, entry: Entry): boolean {
  try {
    decodeResource(type, entry);
    return true;
  } catch {
    return false;
  }
}
