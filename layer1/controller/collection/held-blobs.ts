/**
 * Which blobs may a runner outside of the cluster read, and make an app of? Those of the operations that it holds: what they begin
 * with, what was left for them, what was stored for their apps within a day, and what their apps have. By a digest alone, or by
 * what whoever asked for an operation may do elsewhere, it comes by nothing.
 */
import type { BlobClient } from '@flynn/blobstore/client';
import type { Deps } from '../deps.ts';
import { blobsOfRecords } from '../images/build-record.ts';
import { isHeldBy } from '../operations/holding.ts';
import { decodeOperation, findOperation, liveKey } from '../operations/records.ts';
import { operationType } from '../resources.ts';
import type { OperationResource } from '../resources.ts';
import { broughtName } from './brought.ts';
import { blobsOfApps } from './made-of.ts';

export class HeldBlobs {
  readonly #deps: Pick<Deps, 'resources' | 'store' | 'queue'>;
  readonly #blobs: Pick<BlobClient, 'get' | 'stat' | 'putName' | 'getName'>;

  constructor(
    deps: Pick<Deps, 'resources' | 'store' | 'queue'>,
    blobs: Pick<BlobClient, 'get' | 'stat' | 'putName' | 'getName'>,
  ) {
    this.#deps = deps;
    this.#blobs = blobs;
  }

  /** All that the runner holds, also what another controller gave it a moment ago: that costs reading every live operation. */
  held(runnerId: string, signal: AbortSignal): Promise<OperationResource[]> {
    return this.#deps.resources.list(operationType, { signal, where: isHeldBy({ runnerId }) });
  }

  /** What this controller knows the runner to hold, as it is in the store now: a read for each, however many others there are. */
  async known(runnerId: string, signal: AbortSignal): Promise<OperationResource[]> {
    const ids = [...this.#deps.queue.heldBy(runnerId)];
    const entries = await Promise.all(ids.map((id) => this.#deps.store.get(liveKey(id), { signal })));
    return entries
      .flatMap((entry) => (entry === undefined ? [] : [decodeOperation(entry)]))
      .filter(isHeldBy({ runnerId }));
  }

  /** A blob that was stored for these: whichever runner goes on with them, or with what follows, may have it. */
  async keep(operations: readonly OperationResource[], digest: string, signal: AbortSignal): Promise<void> {
    for (const appId of appsOf(operations)) await this.#blobs.putName(nameOf(appId, digest), digest, { signal });
  }

  /** Of these what the runner has no operation for. Only before that is said all live operations are read. */
  async missing(runnerId: string, digests: readonly string[], signal: AbortSignal): Promise<string[]> {
    const left = await this.missingIn(await this.known(runnerId, signal), digests, signal);
    return left.length === 0 ? [] : this.missingIn(await this.held(runnerId, signal), left, signal);
  }

  async missingIn(
    operations: readonly OperationResource[],
    digests: readonly string[],
    signal: AbortSignal,
  ): Promise<string[]> {
    const isIn = (own: ReadonlySet<string>) => (digest: string) => !own.has(digest);
    const appIds = appsOf(operations);
    let left = [...new Set(digests)];
    if (left.length > 0) left = left.filter(isIn(await this.#stored(appIds, left, signal)));
    if (left.length > 0) left = left.filter(isIn(await this.#given(operations, signal)));
    if (left.length > 0) left = left.filter(isIn(await blobsOfApps(this.#deps, ({ id }) => appIds.has(id), signal)));
    return left;
  }

  async #stored(
    appIds: ReadonlySet<string>,
    digests: readonly string[],
    signal: AbortSignal,
  ): Promise<ReadonlySet<string>> {
    const stored = new Set<string>();
    for (const digest of digests) {
      for (const appId of appIds) {
        if ((await this.#blobs.getName(nameOf(appId, digest), { signal })) !== undefined) stored.add(digest);
      }
    }
    return stored;
  }

  /** What whoever asked for them brought, what a build of theirs left, and what came of those before them. */
  async #given(operations: readonly OperationResource[], signal: AbortSignal): Promise<ReadonlySet<string>> {
    const sources: string[] = [];
    const records: string[] = [];
    for (const { id, spec } of operations) {
      const { sourceDigest, resultDigest } = spec.input;
      if (sourceDigest !== undefined) sources.push(sourceDigest);
      const left = await this.#blobs.getName(`builds/${id}`, { signal });
      const before = await Promise.all(
        (spec.dependsOn ?? []).map((one) => findOperation(this.#deps.store, one, { signal })),
      );
      const results = [resultDigest, left?.digest, ...before.map((one) => one?.status.output['resultDigest'])];
      records.push(...results.flatMap((digest) => digest ?? []));
    }
    return new Set([...sources, ...records, ...(await blobsOfRecords(this.#blobs, records, signal))]);
  }
}

function appsOf(operations: readonly OperationResource[]): ReadonlySet<string> {
  return new Set(operations.map(({ spec }) => spec.appId));
}

function nameOf(appId: string, digest: string): string {
  return broughtName(`app:${appId}`, digest);
}
