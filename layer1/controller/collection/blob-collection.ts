/** Which blobs does nobody need? Those nothing refers to, and nobody used for a day: an upload under way is safe. */
import type { BlobClient } from '@flynn/blobstore/client';
import { hasCode } from '@flynn/kit/errors';
import { collectArtifacts } from './collection.ts';
import type { Deps } from '../deps.ts';
import { datastoreBackupType } from '../datastore-backups/types.ts';
import { catalogueNames } from '../datastore-history/catalogue.ts';
import { blobsOfArchive } from '../datastore-history/pieces.ts';
import { archiveType, historyType } from '../datastore-history/types.ts';
import { findOperation } from '../operations/records.ts';
import { broughtNames } from './brought.ts';
import { blobsOfRecords } from '../images/build-record.ts';
import { blobsOf, resultMeta } from '../images/image-blobs.ts';
import { appType, artifactType, operationType } from '../resources.ts';

export type BlobCollector = Pick<BlobClient, 'list' | 'listNames' | 'remove' | 'removeName' | 'get' | 'stat'>;

const buildNames = 'builds';

export const blobGraceMs = 24 * 60 * 60_000;

/**
 * Blobs are listed before what refers to them is: what comes to be referred to meanwhile was used meanwhile, and a blob
 * that was used since is not removed. Of names only those of builds, of apps and of what somebody brought are ours to judge.
 * A record that cannot be read may refer to any of them: it is thrown (isUnreadable), and they stay.
 */
export async function collectBlobs(
  deps: Deps,
  blobs: BlobCollector,
  { signal }: { signal: AbortSignal },
): Promise<{ blobs: number; bytes: number; names: number }> {
  const before = deps.now() - blobGraceMs;
  await collectArtifacts(deps, undefined, { signal });
  const names = await removeNames(deps, blobs, before, signal);
  const found = await Array.fromAsync(blobs.list({ signal }));
  const needed = await neededBlobs(deps, blobs, signal);
  let count = 0;
  let bytes = 0;
  for (const { digest, sizeBytes, usedAt } of found) {
    if (usedAt >= before || needed.has(digest)) continue;
    try {
      await blobs.remove(digest, { unusedSince: before, signal });
      count += 1;
      bytes += sizeBytes;
    } catch (error) {
      if (!hasCode(error, 'conflict')) throw error;
    }
  }
  if (count + names > 0) deps.log.info({ blobs: count, bytes, names }, 'blobs collected');
  return { blobs: count, bytes, names };
}

async function neededBlobs(deps: Deps, blobs: BlobCollector, signal: AbortSignal): Promise<Set<string>> {
  const all = { signal, isStrict: true };
  const artifacts = await deps.resources.list(artifactType, all);
  const dumps = await deps.resources.list(datastoreBackupType, all);
  // What leaves the newest is in the archive by then.
  const histories = await deps.resources.list(historyType, all);
  const archives = await deps.resources.list(archiveType, all);
  const open = await deps.resources.list(operationType, all);
  const named = await Array.fromAsync(blobs.listNames({ signal }));
  const waitedFor = new Set(open.flatMap(({ spec: { dependsOn = [] } }) => dependsOn));
  const records = [
    ...named.filter(({ name }) => name.startsWith(`${buildNames}/`)).map(({ digest }) => digest),
    ...open.flatMap(({ spec: { input } }) => input.resultDigest ?? []),
    ...(await resultsOf(deps, waitedFor, signal)),
  ];
  return new Set([
    ...records,
    ...(await blobsOfRecords(blobs, records, signal)),
    ...artifacts.flatMap(({ spec }) => blobsOf(spec.image)),
    ...artifacts.map(({ spec }) => spec.meta[resultMeta] ?? ''),
    ...open.flatMap(({ spec: { input } }) => input.sourceDigest ?? []),
    ...dumps.map(({ status }) => status.digest ?? ''),
    ...histories.flatMap(({ status }) => status.recent.map(({ digest }) => digest)),
    ...archives.flatMap(({ status }) => blobsOfArchive(status)),
    ...named.map(({ digest }) => digest),
  ]);
}

/** What these, which have ended, left for those that wait for them: an image from a registry has no name of its own. */
async function resultsOf({ store }: Deps, operationIds: ReadonlySet<string>, signal: AbortSignal): Promise<string[]> {
  const found: string[] = [];
  for (const id of operationIds) {
    const digest = (await findOperation(store, id, { signal }))?.status.output['resultDigest'];
    if (digest !== undefined) found.push(digest);
  }
  return found;
}

async function removeNames(deps: Deps, blobs: BlobCollector, before: number, signal: AbortSignal): Promise<number> {
  const named = await Array.fromAsync(blobs.listNames({ signal }));
  const apps = new Set((await deps.resources.list(appType, { signal, isStrict: true })).map(({ id }) => id));
  // Of those that are not through; the result of a build is read by what depends on it.
  const open = await deps.resources.list(operationType, { signal, isStrict: true });
  const operations = new Set(open.flatMap(({ id, spec: { dependsOn = [] } }) => dependsOn.concat(id)));
  const gone = named.filter(({ name, changedAt }) => {
    const [kind, id = '', ...rest] = name.split('/');
    if (changedAt >= before) return false;
    if (kind === broughtNames) return true;
    if (rest.length > 0) return false;
    if (kind === buildNames) return !operations.has(id);
    return (kind === 'cache' || kind === 'layers' || kind === catalogueNames) && !apps.has(id);
  });
  for (const { name } of gone) await blobs.removeName(name, { signal });
  return gone.length;
}
