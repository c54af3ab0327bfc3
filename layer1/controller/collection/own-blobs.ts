/**
 * Which blobs may a caller make an app of? Those they brought within a day, and those of an artifact that an app has whose
 * code they may read. Nobody comes by bytes by knowing their digest: what is not theirs is not there, and to be sent.
 */
import type { BlobClient } from '@flynn/blobstore/client';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import type { Directory } from '../access/directory.ts';
import type { Principal } from '../access/principal.ts';
import type { Deps } from '../deps.ts';
import { blobsOf, resultMeta } from '../images/image-blobs.ts';
import { blobsOfRecord, readBuildRecord } from '../images/build-record.ts';
import type { Artifact, Operation } from '../model.ts';
import { findOperation, getOperation } from '../operations/records.ts';
import { appType, artifactType, releaseType } from '../resources.ts';
import type { AppResource } from '../resources.ts';

/** Names of what somebody brought begin so; they go a day later. */
export const broughtNames = 'brought';

type Asked = Pick<Operation, 'input' | 'dependsOn'> & { id?: string | undefined };

export class OwnBlobs {
  readonly #deps: Pick<Deps, 'resources' | 'store'>;
  readonly #blobs: Pick<BlobClient, 'get' | 'stat' | 'putName' | 'getName'>;

  readonly #directory: Pick<Directory, 'whoAsked'>;

  constructor(
    deps: Pick<Deps, 'resources' | 'store'>,
    blobs: Pick<BlobClient, 'get' | 'stat' | 'putName' | 'getName'>,
    directory: Pick<Directory, 'whoAsked'>,
  ) {
    this.#deps = deps;
    this.#blobs = blobs;
    this.#directory = directory;
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
    if (principal?.isAdmin === true) return [];
    const others: string[] = [];
    for (const digest of new Set(digests)) {
      const name = principal === undefined ? undefined : nameOf(principal.id, digest);
      if (name === undefined || (await this.#blobs.getName(name, { signal })) === undefined) others.push(digest);
    }
    if (others.length === 0) return [];
    const mayRead = ({ id, spec }: AppResource): boolean =>
      id === ownAppId || principal?.canReadSecrets({ id, isSystem: spec.isSystem }) === true;
    const readable = await this.#readable(mayRead, signal);
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

  async #readable(mayRead: (app: AppResource) => boolean, signal: AbortSignal): Promise<ReadonlySet<string>> {
    const { resources } = this.#deps;
    const [apps, releases, artifacts] = await Promise.all([
      resources.list(appType, { signal }),
      resources.list(releaseType, { signal }),
      resources.list(artifactType, { signal }),
    ]);
    const appIds = new Set(apps.filter(mayRead).map(({ id }) => id));
    const had = new Set(releases.flatMap(({ spec }) => (appIds.has(spec.appId) ? (spec.artifactId ?? []) : [])));
    return new Set(artifacts.flatMap(({ id, spec }) => (had.has(id) ? madeOf(spec) : [])));
  }
}

/** Its blobs, and the record that it is deployed by again. */
export function madeOf({ image, meta }: Pick<Artifact, 'image' | 'meta'>): string[] {
  const record = meta[resultMeta];
  return [...blobsOf(image), ...(record === undefined ? [] : [record])];
}

/** What somebody brings with a token of theirs is also theirs when they push with a key; to another token it is not there. */
function namesOf({ id, userId }: Principal, digest: string): string[] {
  return [id, ...(userId === undefined ? [] : [`user:${userId}`])].map((owner) => nameOf(owner, digest));
}

function nameOf(owner: string, digest: string): string {
  return `${broughtNames}/${owner.replace(':', '/')}/${digest.replace(/^sha256:/, '')}`;
}
