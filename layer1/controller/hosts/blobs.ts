/** Blobs that would go with a host, told before it goes. */
import type { Lack } from '@flynn/blobstore/api';
import { createBlobClient } from '@flynn/blobstore/client';
import type { BlobClient } from '@flynn/blobstore/client';
import { soleCopies } from '@flynn/blobstore/sole-copies';
import { FlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import type { ResourceService } from '@flynn/resource/service';
import { amountOf } from '../health/blobs.ts';
import { blobsOf } from '../images/image-blobs.ts';
import { appType, artifactType, releaseType } from '../resources.ts';

type Limits = { signal: AbortSignal };

const answerMs = 5_000;
const maxNamed = 5;

/**
 * `conflict` while a host whose disk is to go, or to be out of reach, has what no other store has. One that cannot be asked
 * is no obstacle: who empties a host may do it because of that.
 */
export async function checkSoleCopies(
  blobs: Pick<BlobClient, 'replication'>,
  hostId: string,
  { signal }: Limits,
): Promise<void> {
  const limited = AbortSignal.any([signal, AbortSignal.timeout(answerMs)]);
  let sole: Lack | undefined;
  try {
    sole = soleCopies(await blobs.replication({ signal: limited }), hostId);
  } catch (error) {
    signal.throwIfAborted();
    if (!hasCode(error, 'unavailable', 'timeout', 'not_found') && !limited.aborted) throw error;
  }
  if (sole === undefined) return;
  const what =
    sole.count === 0
      ? `the blob stores of other hosts have not said yet whether they have what that of ${hostId} has`
      : `${hostId} alone has ${amountOf(sole)} of slugs and layers`;
  throw new FlynnError('conflict', what, { detail: { soleCopies: sole } });
}

/** As `checkSoleCopies`, for who is no part of the platform. */
export async function checkSoleCopiesAt(
  target: Parameters<typeof createBlobClient>[0],
  hostId: string,
  limits: Limits,
): Promise<void> {
  const blobs = createBlobClient(target);
  try {
    await checkSoleCopies(blobs, hostId, limits);
  } finally {
    await blobs.close();
  }
}

/** `conflict` when releases are made of blobs that no store has which is left: the host that is to be forgotten had them. */
export async function checkLostBlobs(
  { resources }: { resources: Pick<ResourceService, 'list'> },
  blobs: Pick<BlobClient, 'list'>,
  hostId: string,
  { signal }: Limits,
): Promise<void> {
  const artifacts = await resources.list(artifactType, { signal });
  const needed = artifacts.map(({ id, spec }) => ({ id, digests: blobsOf(spec.image) }));
  if (needed.every(({ digests }) => digests.length === 0)) return;
  const there = await digestsOf(blobs, hostId, signal);
  const lost = needed.filter(({ digests }) => digests.some((digest) => !there.has(digest)));
  if (lost.length === 0) return;
  const ids = new Set(lost.map(({ id }) => id));
  const releases = await resources.list(releaseType, {
    signal,
    where: ({ spec }) => spec.artifactId !== undefined && ids.has(spec.artifactId),
  });
  // What no release has any more is about to be collected.
  if (releases.length === 0) return;
  const names = new Map((await resources.list(appType, { signal })).map(({ id, spec }) => [id, spec.name]));
  const told = releases.map(({ spec }) => `${names.get(spec.appId) ?? spec.appId} v${spec.version}`);
  const text = `${told.slice(0, maxNamed).join(', ')}${told.length > maxNamed ? ` and ${told.length - maxNamed} more` : ''}`;
  throw new FlynnError(
    'conflict',
    `no blob store has what these releases are made of: ${text}\n  if ${hostId} has it, bring it back until others have copied it, or push the apps again\n  if its disk is gone for good: --give-up-blobs; these releases then cannot be started on other hosts, nor backed up`,
  );
}

async function digestsOf(blobs: Pick<BlobClient, 'list'>, hostId: string, signal: AbortSignal): Promise<Set<string>> {
  try {
    const there = new Set<string>();
    for await (const { digest } of blobs.list({ signal })) there.add(digest);
    return there;
  } catch (error) {
    if (!hasCode(error, 'unavailable', 'timeout')) throw error;
    throw new FlynnError(
      'unavailable',
      `it cannot be known which slugs and layers ${hostId} alone has: ${messageOf(error)}. Try again once a blob store answers (flynn status), or give them up: --give-up-blobs`,
      { cause: error },
    );
  }
}
