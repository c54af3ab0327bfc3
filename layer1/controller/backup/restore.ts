/**
 * Brings what a backup has onto a cluster that nothing was made on yet, in three stages that may each be broken off and
 * repeated: records before there is a controller, blobs once there is a blob store, then apps go live: databases first, see
 * restore-datastores.ts.
 *
 * INVARIANT. No app runs, and none follows a repository, before all blobs are there. Names are taken from the first
 * stage on: nobody can make something in between that would be in the way.
 */
import { Readable } from 'node:stream';
import { createBlobClient } from '@flynn/blobstore/client';
import type { BlobClient } from '@flynn/blobstore/client';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { newId } from '@flynn/kit/ids';
import { silentLogger } from '@flynn/kit/log';
import { retry } from '@flynn/kit/retry';
import { writePiece } from '@flynn/resource/piece';
import type { Piece } from '@flynn/resource/piece';
import { ResourceService } from '@flynn/resource/service';
import { workloadChange } from '@flynn/scheduler/evaluations';
import type { Operation, Store } from '@flynn/store/store';
import { compileWorkload } from '../processes/compile.ts';
import { runnableOf } from '../releases/releases.ts';
import { appType, formationType, releaseType } from '../resources.ts';
import { readArchive } from './archive.ts';
import type { Bytes } from './archive.ts';
import { digestOfBlob, platformName } from './manifest.ts';
import { recordsOf } from './records.ts';
import type { RestoredOnto, RestoredRecord } from './records.ts';
import { claimStore, enterStage } from './restore-state.ts';
import type { Claim } from './restore-state.ts';

export type RestoreSource = Readonly<{
  /** The archive from its beginning, each time it is asked for; it was inspected. */
  open: () => Bytes;
  /** Its seal. */
  digest: string;
}>;

export type Options = { nowMs: number; signal: AbortSignal; report?: (line: string) => void };
/** What releases run on here. */
export type Images = Pick<RestoredOnto, 'slugRunnerImage' | 'applianceImages'>;
export type Live = NonNullable<RestoredRecord['live']>;

/** A transaction of the store holds 128 operations and a request a megabyte and a half. */
const batchOperations = 60;
const batchBytes = 512 * 1024;
const goLiveAttempts = 10;
const blobsMs = 6 * 60 * 60_000;

/**
 * Onto an empty store. Answers how many records were written, or undefined if that was done before. `beforeAny` is done with
 * them: once they are there people may change it.
 */
export async function restoreRecords(
  store: Store,
  source: RestoreSource,
  options: Options & Images & { beforeAny?: () => Promise<void> },
): Promise<number | undefined> {
  const claim = await claimStore(store, source.digest, options);
  if (claim.state.stage !== 'records') return undefined;
  await options.beforeAny?.();
  const writer = new BatchWriter(store, claim, options.signal);
  await eachRecord(source, options, async ({ writes, isLate }) => {
    if (!isLate) await writer.add(writes);
  });
  await writer.flush();
  await enterStage(store, 'blobs', options);
  return writer.count;
}

/** Those that are not there yet; again while the blob store cannot be reached. Answers how many came. */
export async function restoreBlobs(
  store: Store,
  target: Parameters<typeof createBlobClient>[0],
  source: RestoreSource,
  options: Options,
): Promise<number | undefined> {
  const claim = await claimStore(store, source.digest, options);
  if (claim.state.stage !== 'blobs') return undefined;
  const blobs = createBlobClient(target);
  try {
    const { signal } = options;
    const count = await retry((limited) => putBlobs(blobs, source, { ...options, signal: limited }), {
      what: 'restoring blobs',
      deadlineMs: blobsMs,
      signal,
      isRetryable: (error) => hasCode(error, 'unavailable', 'timeout'),
    });
    await enterStage(store, 'apps', options);
    return count;
  } finally {
    await blobs.close();
  }
}

async function putBlobs(blobs: BlobClient, source: RestoreSource, { signal, report }: Options): Promise<number> {
  let count = 0;
  await readArchive(source.open(), async (part, body) => {
    const digest = digestOfBlob(part.name);
    if (digest === undefined) return;
    signal.throwIfAborted();
    const known = await blobs.stat(digest, { signal }).catch((error: unknown) => {
      if (!hasCode(error, 'not_found')) throw error;
    });
    if (known?.sizeBytes === part.sizeBytes) return;
    await blobs.put(Readable.from(body, { objectMode: false }), { digest, signal, timeoutMs: blobsMs });
    count += 1;
    report?.(`${count} blobs`);
  });
  return count;
}

/** Every app runs what it ran, and follows what it followed. Answers how many went live. */
export async function restoreApps(
  store: Store,
  source: RestoreSource,
  options: Options & Images,
): Promise<number | undefined> {
  const claim = await claimStore(store, source.digest, options);
  if (claim.state.stage !== 'apps') return undefined;
  const resources = resourcesOf(store, options);
  const live: Live[] = [];
  const late: (readonly Operation[])[] = [];
  await eachRecord(source, options, async (record) => {
    if (record.live !== undefined) live.push(record.live);
    if (record.isLate) late.push(record.writes);
  });
  let count = 0;
  for (const one of live) {
    if (await goLive(resources, one, options)) count += 1;
    options.report?.(`${count} of ${live.length} apps`);
  }
  for (const writes of late) await putNew(store, writes, options.signal);
  await enterStage(store, 'complete', options);
  return count;
}

export function resourcesOf(store: Store, { nowMs }: Options): ResourceService {
  return new ResourceService({ store, now: () => nowMs, newId, log: silentLogger() });
}

/** False if there is nothing to do: somebody deployed it meanwhile, or deleted it. */
export async function goLive(
  resources: ResourceService,
  { appId, releaseId }: Live,
  { nowMs, signal }: Options,
): Promise<boolean> {
  for (let attempt = 1; ; attempt += 1) {
    const app = await resources.find(appType, appId, { signal });
    if (app === undefined || app.deletingSince !== undefined) return false;
    if (app.status.releaseId !== undefined || app.status.deploymentId !== undefined) return false;
    const release = await resources.get(releaseType, releaseId, { signal });
    const formation = await resources.find(formationType, releaseId, { signal });
    const runnable = await runnableOf({ resources }, app, release, signal);
    const types = runnable === undefined ? [] : Object.entries(release.spec.processes);
    const workloads = types.flatMap(([type, process]): Piece[] => {
      const wanted = formation?.spec.processes[type] ?? 0;
      if (runnable === undefined || wanted === 0) return [];
      return [{ then: workloadChange(compileWorkload(runnable, type, process, wanted), { now: nowMs, newId }) }];
    });
    const { wasLive: _, ...before } = app.status;
    const status = { ...before, releaseId };
    try {
      await resources.commit([writePiece(appType, app, { ...app, status }), ...workloads], { signal });
      return true;
    } catch (error) {
      if (!hasCode(error, 'conflict') || attempt >= goLiveAttempts) throw error;
    }
  }
}

/** What somebody made anew meanwhile stays. */
async function putNew(store: Store, writes: readonly Operation[], signal: AbortSignal): Promise<void> {
  const compare = writes.flatMap((write) => ('put' in write ? [{ key: write.put, modRevision: 0 }] : []));
  await store.transact({ compare, then: writes }, { signal });
}

export async function eachRecord(
  source: RestoreSource,
  onto: RestoredOnto,
  take: (record: RestoredRecord) => Promise<void>,
): Promise<void> {
  const { digest } = await readArchive(source.open(), async (part, body) => {
    if (part.name === platformName || digestOfBlob(part.name) !== undefined) return;
    for await (const record of recordsOf(part, body, onto)) await take(record);
  });
  if (digest !== source.digest) throw new FlynnError('conflict', 'the backup was changed while it was restored');
}

/** Few transactions, each while the restore is still ours. Writing the same again changes nothing. */
class BatchWriter {
  readonly #store: Store;
  readonly #claim: Claim;
  readonly #signal: AbortSignal;
  #batch: Operation[] = [];
  #bytes = 0;
  count = 0;

  constructor(store: Store, claim: Claim, signal: AbortSignal) {
    this.#store = store;
    this.#claim = claim;
    this.#signal = signal;
  }

  async add(writes: readonly Operation[]): Promise<void> {
    const bytes = writes.reduce((sum, write) => sum + ('value' in write ? write.value.length : 0), 0);
    const isFull = this.#batch.length + writes.length > batchOperations || this.#bytes + bytes > batchBytes;
    if (isFull) await this.flush();
    this.#batch.push(...writes);
    this.#bytes += bytes;
    this.count += 1;
  }

  async flush(): Promise<void> {
    if (this.#batch.length === 0) return;
    const { succeeded } = await this.#store.transact(
      { compare: [this.#claim.compare], then: this.#batch },
      { signal: this.#signal },
    );
    if (!succeeded)
      throw new FlynnError('conflict', 'somebody else restores a backup onto this cluster at this moment');
    this.#batch = [];
    this.#bytes = 0;
  }
}
