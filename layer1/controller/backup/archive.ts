/**
 * A backup as a file: a tar archive of a manifest, the parts it lists in their order, and a seal.
 *
 * INVARIANT. The seal is the digest of the manifest, and the manifest has the digest of every part: an archive whose seal
 * was read and whose parts were compared is whole, to the byte, and is known by that digest.
 */
import { createHash } from 'node:crypto';
import { PassThrough, Readable, pipeline as pipe } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { extract, pack } from 'tar-stream';
import type { Extract } from 'tar-stream';
import { manifestName, parseManifest, sealName } from './manifest.ts';
import type { Manifest, Part } from './manifest.ts';

export type Bytes = AsyncIterable<Uint8Array>;

/** A million blobs are listed in less. */
const maxManifestBytes = 256 * 1024 ** 2;
const sealBytes = 65;

/** Fails where a part is not what the manifest says of it, or cannot be read: what came before has no seal. */
export function packArchive(manifest: Manifest, open: (part: Part) => Bytes): Readable {
  const archive = pack();
  const common = { type: 'file', mode: 0o600, mtime: new Date(manifest.madeAt) } as const;
  const text = `${JSON.stringify(manifest, undefined, 1)}\n`;
  const write = async (): Promise<void> => {
    archive.entry({ ...common, name: manifestName }, text);
    for (const part of manifest.parts) {
      const body = Readable.from(checked(part, open(part)), { objectMode: false });
      await pipeline(body, archive.entry({ ...common, name: part.name, size: part.sizeBytes }));
    }
    archive.entry({ ...common, name: sealName }, `${sha256Of(text)}\n`);
    archive.finalize();
  };
  // tar-stream's own streams are not quite Node's.
  const out = pipe(archive, new PassThrough(), () => {
    // Whoever reads the archive hears of a failure from it.
  });
  write().catch((error: unknown) => out.destroy(error instanceof Error ? error : new Error(messageOf(error))));
  return out;
}

export type ArchiveFacts = Readonly<{
  manifest: Manifest;
  /** The seal: what an archive is known by. */
  digest: string;
}>;

/**
 * Reads it from end to end and compares everything. `visit` is given each part after its manifest was read; what it is
 * given fails at its end if the bytes are others than were written, so it may use them only once it has read all of
 * them. `invalid` for what is no backup, is damaged or was cut; what the source fails with comes as it is.
 */
export async function readArchive(
  source: Bytes,
  visit: (part: Part, body: Bytes, manifest: Manifest) => Promise<void>,
): Promise<ArchiveFacts> {
  const archive = extract();
  const broken: unknown[] = [];
  const watched = async function* (): AsyncGenerator<Uint8Array> {
    try {
      yield* source;
    } catch (error) {
      broken.push(error);
      throw error;
    }
  };
  const [read, fed] = await Promise.allSettled([readEntries(archive, visit), pipeline(watched(), archive)]);
  // That is why the archive lacks something.
  if (broken.length > 0) throw broken[0];
  if (read.status === 'rejected' && read.reason instanceof FlynnError) throw read.reason;
  if (read.status === 'fulfilled' && fed.status === 'fulfilled') return read.value;
  const cause: unknown = fed.status === 'rejected' ? fed.reason : read.status === 'rejected' ? read.reason : undefined;
  throw new FlynnError('invalid', `this is no backup of a cluster, or it was cut: ${messageOf(cause)}`, { cause });
}

async function readEntries(
  archive: Extract,
  visit: (part: Part, body: Bytes, manifest: Manifest) => Promise<void>,
): Promise<ArchiveFacts> {
  let manifest: Manifest | undefined;
  let digest = '';
  let place = 0;
  let isSealed = false;
  for await (const entry of archive) {
    const { name, size } = entry.header;
    const part = manifest?.parts[place];
    const bytes: Bytes = Readable.from(entry);
    if (isSealed) throw damaged(`${name} comes after its seal`);
    if (manifest === undefined) {
      if (name !== manifestName || size > maxManifestBytes) throw damaged('it does not begin with its manifest');
      const text = await textOf(bytes);
      manifest = parseManifest(text);
      digest = sha256Of(text);
    } else if (part !== undefined) {
      if (name !== part.name || size !== part.sizeBytes) throw damaged(`${part.name} was to come, and ${name} came`);
      place += 1;
      const body = checked(part, bytes);
      await visit(part, body, manifest);
      // What nobody wanted is compared all the same.
      for await (const _ of body);
    } else {
      if (name !== sealName || size !== sealBytes) throw damaged(`${name} is not in its manifest`);
      if ((await textOf(bytes)).trim() !== digest) throw damaged('its seal is not that of its manifest');
      isSealed = true;
    }
  }
  if (manifest === undefined) throw new FlynnError('invalid', 'this is no backup of a cluster: it is empty');
  if (!isSealed) {
    throw new FlynnError('invalid', `the backup was cut: ${place} of its ${manifest.parts.length} parts are there`);
  }
  return { manifest, digest };
}

/** Passes the bytes on, and fails at their end if they are others, or as soon as they are too many. */
async function* checked(part: Part, body: Bytes): AsyncGenerator<Uint8Array> {
  const hash = createHash('sha256');
  let sizeBytes = 0;
  for await (const chunk of body) {
    sizeBytes += chunk.length;
    if (sizeBytes > part.sizeBytes) break;
    hash.update(chunk);
    yield chunk;
  }
  if (sizeBytes !== part.sizeBytes || hash.digest('hex') !== part.sha256) {
    throw damaged(`${part.name} is not what the manifest says`);
  }
}

async function textOf(body: Bytes): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of body) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

function sha256Of(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

function damaged(why: string): FlynnError {
  return new FlynnError('invalid', `the backup is damaged: ${why}`);
}
