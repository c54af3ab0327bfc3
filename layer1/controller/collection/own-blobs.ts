/**
 * Which blobs may a caller make an app of? Those they brought within a day, and those of an artifact that an app has whose
 * code they may read; of runners outside of the cluster see `HeldBlobs`. Nobody comes by bytes by knowing their digest: what is
 * not theirs is not there, and to be sent.
 */
import type { BlobClient } from '@flynn/blobstore/client';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import type { Directory } from '../access/directory.ts';
import type { Principal } from '../access/principal.ts';
import type { Deps } from '../deps.ts';
import { blobsOfRecord, readBuildRecord } from '../images/build-record.ts';
import type { Operation } from '../model.ts';
import { findOperation, getOperation } from '../operations/records.ts';
import { appType, artifactType } from '../resources.ts';
import type { AppResource } from '../resources.ts';
import { broughtName } from './brought.ts';
import type { HeldBlobs } from './held-blobs.ts';
import { blobsOfApps, madeOf } from './made-of.ts';

type Asked = Pick<Operation, 'input' | 'dependsOn'> & { id?: string | undefined };

export class OwnBlobs {
  readonly #deps: Pick<Deps, 'resources' | 'store'>;
  readonly #blobs: Pick<BlobClient, 'get' | 'stat' | 'putName' | 'getName'>;

  readonly #directory: Pick<Directory, 'whoAsked'>;
  readonly #held: Pick<HeldBlobs, 'missing'>;

  constructor(
    deps: Pick<Deps, 'resources' | 'store'>,
    blobs: Pick<BlobClient, 'get' | 'stat' | 'putName' | 'getName'>,
    { directory, held }: { directory: Pick<Directory, 'whoAsked'>; held: Pick<HeldBlobs, 'missing'> },
  ) {
    this.#deps = deps;
    this.#blobs = blobs;
    this.#directory = directory;
    this.#held = held;
  }

  /** Of a blob that is stored. Kept by the blob store: any controller knows it. */
  async bring(principal: Principal, digest: string, signal: AbortSignal): Promise<void> {
    if (principal.isAdmin) return;
    for (const name of namesOf(principal, digest)) await this.#blobs.putName(name, digest, { signal });
  }

  /** `not_found` with the first that is not theirs, in the same words whether others have it or nobody. */
  async check(principal: Principal, digests: readonly string[], signal: AbortSignal): Promise<void> {
    const [missing] = await this.#missing(principal, undefined, digests, signal);
    if (missing === undefined) return;
    throw new FlynnError(
      'not_found',
      `there is no layer ${missing} that you brought today, or that an app has which you are a developer of: send it first`,
      { detail: { digest: missing } },
    );
  }

  /** An artifact is for who may have all that it is of. Else it is not there. */
  async checkArtifact(principal: Principal, artifactId: string, signal: AbortSignal): Promise<void> {
    const { spec } = await this.#deps.resources.get(artifactType, artifactId, { signal });
    try {
      await this.check(principal, madeOf(spec), signal);
    } catch (error) {
      if (!hasCode(error, 'not_found')) throw error;
      throw new FlynnError('not_found', `there is no artifact "${artifactId}"`, {
        detail: { type: artifactType.name, id: artifactId },
      });
    }
  }

  /** What an operation begins with: sources, an image's record with all that it names, and what others left. */
  async checkOperations(principal: Principal, asked: readonly Asked[], signal: AbortSignal): Promise<void> {
    if (principal.isAdmin) return;
    const own = new Set(asked.map(({ id }) => id));
    for (const { input, dependsOn = [] } of asked) {
      const { sourceDigest, resultDigest } = input;
      if (sourceDigest !== undefined) await this.check(principal, [sourceDigest], signal);
      if (resultDigest !== undefined) await this.#checkRecord(principal, resultDigest, signal);
      for (const id of dependsOn) if (!own.has(id)) await this.#checkOperation(principal, id, signal);
    }
  }

  /**
   * Of these what an operation may not be made of: neither whoever asked for it has it, nor its app. `not_found` if there is
   * no such operation.
   */
  async missingFor(operationId: string, digests: readonly string[], signal: AbortSignal): Promise<string[]> {
    const { asker, appId } = (await getOperation(this.#deps.store, operationId, { signal })).spec;
    const principal = asker === undefined ? undefined : await this.#directory.whoAsked(asker, signal);
    return this.#missing(principal, appId, digests, signal);
  }

  async #missing(
    principal: Principal | undefined,
    ownAppId: string | undefined,
    digests: readonly string[],
    signal: AbortSignal,
  ): Promise<string[]> {
    if (principal?.runnerId !== undefined) return this.#held.missing(principal.runnerId, digests, signal);
    if (principal?.isAdmin === true) return [];
    const others: string[] = [];
    for (const digest of new Set(digests)) {
      const name = principal === undefined ? undefined : broughtName(principal.id, digest);
      if (name === undefined || (await this.#blobs.getName(name, { signal })) === undefined) others.push(digest);
    }
    if (others.length === 0) return [];
    const mayRead = ({ id, spec }: AppResource): boolean =>
      id === ownAppId || principal?.canReadSecrets({ id, isSystem: spec.isSystem }) === true;
    const readable = await blobsOfApps(this.#deps, mayRead, signal);
    return others.filter((digest) => !readable.has(digest));
  }

  async #checkRecord(principal: Principal, digest: string, signal: AbortSignal): Promise<void> {
    await this.check(principal, [digest], signal);
    await this.check(principal, blobsOfRecord(await readBuildRecord(this.#blobs, digest, { signal })), signal);
  }

  /** One that there is not is told by who creates it. */
  async #checkOperation(principal: Principal, id: string, signal: AbortSignal): Promise<void> {
    const { resources, store } = this.#deps;
    const operation = await findOperation(store, id, { signal });
    const app = operation === undefined ? undefined : await resources.find(appType, operation.spec.appId, { signal });
    if (app === undefined || principal.canReadSecrets({ id: app.id, isSystem: app.spec.isSystem })) return;
    throw new FlynnError('invalid', `there is no operation ${id} to depend on: create it before or along`);
  }
}

/** What somebody brings with a token of theirs is also theirs when they push with a key; to another token it is not there. */
function namesOf({ id, userId }: Principal, digest: string): string[] {
  return [id, ...(userId === undefined ? [] : [`user:${userId}`])].map((owner) => broughtName(owner, digest));
}
