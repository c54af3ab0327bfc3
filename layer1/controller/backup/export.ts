/**
 * What a backup of this cluster consists of.
 *
 * INVARIANT. All records are of one revision, read twice: once for their sizes and digests, which come first in the
 * archive, and once to be written. A blob that something refers to was used when it was counted, so that nobody collects
 * it before it is read.
 */
import { createHash } from 'node:crypto';
import { kindNames, kinds } from '@flynn/appliances/kinds';
import type { BlobClient } from '@flynn/blobstore/client';
import { encryptionKey, isEncrypted, parseEncryption } from '@flynn/host-agent/network/encryption';
import { FlynnError, ifFound } from '@flynn/kit/errors';
import { resourceKey } from '@flynn/resource/keys';
import { decodeResource } from '@flynn/resource/record';
import type { Resource, ResourceType } from '@flynn/resource/type';
import type { Revision, Store } from '@flynn/store/store';
import { auditRoot } from '../audit/trail.ts';
import { notDumped } from '../datastore-backups/asking.ts';
import type { DatastoreBackupResource } from '../datastore-backups/types.ts';
import type { ControllerSettings, Deps } from '../deps.ts';
import { blobsOf, resultMeta } from '../images/image-blobs.ts';
import { appType, artifactType, formationType, releaseType } from '../resources.ts';
import type { AppResource } from '../resources.ts';
import type { Bytes } from './archive.ts';
import { isKept, keptTypes, laterTypes, lineOf, prefixOf, withoutOwnVariables } from './contents.ts';
import type { Platform } from './contents.ts';
import { dumpsAt, undumped } from './dumps.ts';
import {
  auditName,
  blobName,
  digestOfBlob,
  formatVersion,
  platformName,
  recordsName,
  typeOfRecords,
  limitsMeta,
  variablesMeta,
} from './manifest.ts';
import type { Manifest, Part, PlatformPart } from './manifest.ts';
import { entriesAt } from './pages.ts';
import { limitsOf, parseLimits } from './platform-limits.ts';
import type { PlatformLimits } from './platform-limits.ts';
import { checkRestored } from './restore-state.ts';

export type BackupSource = Readonly<{
  store: Store;
  blobs: Pick<BlobClient, 'stat' | 'get'>;
  settings: ControllerSettings;
  clusterId: string;
  now: () => number;
}>;

export type PreparedBackup = Readonly<{ manifest: Manifest; open: (part: Part) => Bytes }>;

/** Lines go out in chunks of about this size. */
const chunkBytes = 64 * 1024;
const statsAtOnce = 32;

/**
 * Reads through all records, and asks the blob store for what they refer to. `conflict` if blobs are missing there,
 * naming what is affected, unless they may be; and in the middle of a restore. The record of a build may always be: releases of
 * it run and are gone back to all the same, and there is nothing that would bring it back.
 */
export async function prepareBackup(
  source: BackupSource,
  { signal, mayMiss = false }: { signal: AbortSignal; mayMiss?: boolean },
): Promise<PreparedBackup> {
  const { store, blobs, settings, clusterId, now } = source;
  await checkRestored(store, { signal });
  const { entries, revision } = await store.list(prefixOf(appType), { signal });
  const at = { revision, signal };
  const apps = entries.map((entry) => decodeResource(appType, entry));
  const dumps = await dumpsAt(store, at);
  const lacking = undumped(apps, dumps);
  if (lacking.length > 0 && !mayMiss) throw notDumped(lacking, lacking);
  const platform = { ...(await platformOf(source, apps, at)), dumpIds: new Set(dumps.map(({ id }) => id)) };
  const platformText = JSON.stringify(await platformPartOf(source, apps, at));

  const linesOf = (name: string): Bytes => {
    if (name === auditName) return lines(store, auditRoot, at, () => true);
    const type = keptTypes.find((one) => one.name === typeOfRecords(name));
    if (type === undefined) throw new FlynnError('internal', `a backup has no part ${name}`);
    return lines(store, prefixOf(type), at, (entry) => isKept(type, entry, platform));
  };
  const open = (part: Part): Bytes => {
    if (part.name === platformName) return once(platformText);
    const digest = digestOfBlob(part.name);
    return digest === undefined ? linesOf(part.name) : blobOf(blobs, digest, signal);
  };

  const parts: Part[] = [await measured(platformName, once(platformText))];
  for (const { name } of keptTypes) {
    const part = await measured(recordsName(name), linesOf(recordsName(name)));
    if (part.sizeBytes > 0 || !laterTypes.has(name)) parts.push(part);
  }
  parts.push(await measured(auditName, linesOf(auditName)));
  const { needed, buildRecords } = await blobsAt(store, platform, at);
  for (const { status } of dumps) if (status.digest !== undefined) needed.add(status.digest);
  const missing: string[] = [];
  const digests = [...needed.union(buildRecords)].toSorted();
  // The answer has to begin before whoever waits for it gives up.
  for (let at = 0; at < digests.length; at += statsAtOnce) {
    const some = digests.slice(at, at + statsAtOnce);
    const sizes = await Promise.all(some.map((digest) => sizeOf(blobs, digest, signal)));
    for (const [index, digest] of some.entries()) {
      const sizeBytes = sizes[index];
      if (sizeBytes === undefined) missing.push(digest);
      else parts.push({ name: blobName(digest), sizeBytes, sha256: digest.replace(/^sha256:/, '') });
    }
  }
  const lost = missing.filter((digest) => needed.has(digest));
  if (lost.length > 0 && !mayMiss) {
    const affected = await affectedBy(store, new Set(lost), { apps, dumps }, at);
    throw new FlynnError(
      'conflict',
      `no whole backup can be made: the blob store lacks ${lost.length} of what releases and dumps of databases are made of (${affected}). Delete those ("flynn release delete", "backup delete" of ${kindNames.map((kind) => `"flynn ${kinds[kind].command}"`).join(' or ')}), or leave out what is missing with --skip-missing`,
      { detail: { missing: lost.slice(0, 100) } },
    );
  }
  const cluster = { id: clusterId, name: settings.name, domain: settings.domain };
  const madeAt = new Date(now()).toISOString();
  const { version: platformVersion } = settings;
  return { manifest: { format: formatVersion, platformVersion, madeAt, cluster, revision, missing, parts }, open };
}

/** Tells clusters apart, and says nothing of the key it is made of. */
export function clusterIdOf({ runnerKey }: Pick<Deps, 'runnerKey'>): string {
  return createHash('sha256').update(`flynn cluster id: ${runnerKey}`).digest('hex').slice(0, 16);
}

type At = { revision: Revision; signal: AbortSignal };

/** Artifacts of the platform's own apps are images that every machine makes itself. */
async function platformOf({ store }: BackupSource, apps: readonly AppResource[], at: At): Promise<Platform> {
  const appIds = new Set(apps.filter(({ spec }) => spec.isSystem).map(({ id }) => id));
  const artifactIds = new Set<string>();
  const others = new Set<string>();
  for await (const { spec } of resourcesAt(store, releaseType, at)) {
    if (spec.artifactId !== undefined) (appIds.has(spec.appId) ? artifactIds : others).add(spec.artifactId);
  }
  return { appIds, artifactIds: artifactIds.difference(others) };
}

async function platformPartOf(
  { store, settings }: BackupSource,
  apps: readonly AppResource[],
  at: At,
): Promise<PlatformPart> {
  const { name, domain, httpPort, httpsPort, gitUrl } = settings;
  const found: Record<string, PlatformPart['apps'][string]> = {};
  const given = new Map<string, { version: number; names: string[]; limits?: PlatformLimits | undefined }>();
  for await (const { spec } of resourcesAt(store, releaseType, at)) {
    const names = spec.meta[variablesMeta]?.split(',');
    // A release that people made since says nothing of them.
    if (names === undefined || (given.get(spec.appId)?.version ?? 0) > spec.version) continue;
    given.set(spec.appId, { version: spec.version, names, limits: parseLimits(spec.meta[limitsMeta]) });
  }
  for (const { id, spec, status } of apps) {
    if (!spec.isSystem || status.releaseId === undefined) continue;
    const release = await resourceAt(store, releaseType, status.releaseId, at);
    const formation = await resourceAt(store, formationType, status.releaseId, at);
    if (release === undefined) continue;
    found[spec.name] = {
      env: withoutOwnVariables(release.spec.env),
      given: given.get(id)?.names ?? [],
      limits: limitsOf(release.spec.processes),
      givenLimits: given.get(id)?.limits,
      counts: { ...formation?.spec.processes },
    };
  }
  const isEncryptedThen = await isEncryptedAt(store, at);
  return { name, domain, httpPort, httpsPort, gitUrl, isEncrypted: isEncryptedThen, apps: found };
}

async function isEncryptedAt(store: Store, at: At): Promise<boolean> {
  const { entries } = await store.list(encryptionKey, at);
  return isEncrypted(parseEncryption(entries.find(({ key }) => key === encryptionKey)?.value));
}

/** `needed`: without these nothing runs. */
async function blobsAt(
  store: Store,
  { artifactIds }: Platform,
  at: At,
): Promise<{ needed: Set<string>; buildRecords: Set<string> }> {
  const needed = new Set<string>();
  const buildRecords = new Set<string>();
  for await (const { id, spec } of resourcesAt(store, artifactType, at)) {
    if (artifactIds.has(id)) continue;
    for (const digest of blobsOf(spec.image)) needed.add(digest);
    const record = spec.meta[resultMeta];
    if (record !== undefined) buildRecords.add(record);
  }
  return { needed, buildRecords };
}

/** For people: which releases could not be restored. */
async function affectedBy(
  store: Store,
  missing: ReadonlySet<string>,
  { apps, dumps }: { apps: readonly AppResource[]; dumps: readonly DatastoreBackupResource[] },
  at: At,
): Promise<string> {
  const artifacts = new Set<string>();
  for await (const { id, spec } of resourcesAt(store, artifactType, at)) {
    if (blobsOf(spec.image).some((digest) => missing.has(digest))) artifacts.add(id);
  }
  const nameOf = (appId: string): string => apps.find(({ id }) => id === appId)?.spec.name ?? appId;
  const names = dumps.flatMap(({ id, owner, status }) =>
    missing.has(status.digest ?? '') ? [`${id} of ${nameOf(owner?.id ?? '')}`] : [],
  );
  for await (const { spec } of resourcesAt(store, releaseType, at)) {
    if (artifacts.has(spec.artifactId ?? '')) names.push(`${nameOf(spec.appId)} v${spec.version}`);
  }
  if (names.length === 0) return 'of artifacts without a release: they are collected within two hours';
  return names.length > 5 ? `${names.slice(0, 5).join(', ')} and ${names.length - 5} more` : names.join(', ');
}

async function* resourcesAt<Spec, Status, SpecInput>(
  store: Store,
  type: ResourceType<string, Spec, Status, SpecInput>,
  at: At,
): AsyncGenerator<Resource<Spec, Status>> {
  for await (const entry of entriesAt(store, prefixOf(type), at)) yield decodeResource(type, entry);
}

async function resourceAt<Spec, Status, SpecInput>(
  store: Store,
  type: ResourceType<string, Spec, Status, SpecInput>,
  id: string,
  at: At,
): Promise<Resource<Spec, Status> | undefined> {
  const key = resourceKey(type.name, id);
  const entry = (await store.list(key, at)).entries.find((one) => one.key === key);
  return entry === undefined ? undefined : decodeResource(type, entry);
}

async function sizeOf(blobs: BackupSource['blobs'], digest: string, signal: AbortSignal): Promise<number | undefined> {
  return (await ifFound(blobs.stat(digest, { signal })))?.sizeBytes;
}

async function* blobOf(blobs: BackupSource['blobs'], digest: string, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  for await (const chunk of await blobs.get(digest, { signal })) yield chunk;
}

async function* lines(
  store: Store,
  prefix: string,
  at: At,
  isWanted: (entry: Parameters<typeof isKept>[1]) => boolean,
): AsyncGenerator<Uint8Array> {
  let text = '';
  for await (const entry of entriesAt(store, prefix, at)) {
    if (isWanted(entry)) text += lineOf(entry);
    if (text.length < chunkBytes) continue;
    yield Buffer.from(text);
    text = '';
  }
  if (text !== '') yield Buffer.from(text);
}

async function* once(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}

async function measured(name: string, body: Bytes): Promise<Part> {
  const hash = createHash('sha256');
  let sizeBytes = 0;
  for await (const chunk of body) {
    hash.update(chunk);
    sizeBytes += chunk.length;
  }
  return { name, sizeBytes, sha256: hash.digest('hex') };
}
