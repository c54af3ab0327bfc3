/**
 * What the keys beside a blob say of it. Nothing in a bucket is ever changed: a use and a removal are keys of their own, named
 * by their moments, and each put keeps bytes of its own. So stores that write at the same time overwrite nothing of each
 * other's, and a list of the keys is all that is known.
 *
 *     blobs/<hex>/bytes-<id>         one of them is enough
 *     blobs/<hex>/removed-<ms>-<id>  of each the latest counts
 *     blobs/<hex>/used-<ms>
 *     names/<name>!<ms>-<hex>        the last of them; without digits the name was removed
 */
import { removalMemoryMs } from '../replica.ts';
import type { Held, Pointer } from '../replica.ts';
import type { S3Object } from './client.ts';

export type BlobRecord = {
  digest: string;
  bytes: readonly S3Object[];
  uses: readonly string[];
  removals: readonly string[];
  usedAt: number;
  removedBefore: number | undefined;
};

export const leftoverAgeMs = 24 * 3_600_000;

export const blobsFolder = 'blobs/';
export const namesFolder = 'names/';
/** Moments of equal length are in the order of time. */
const momentDigits = 15;
const moment = (ms: number): string => String(Math.round(ms)).padStart(momentDigits, '0');

export const folderOf = (hex: string): string => `${blobsFolder}${hex}/`;
export const bytesKey = (hex: string, id: string): string => `${folderOf(hex)}bytes-${id}`;
export const useKey = (hex: string, at: number): string => `${folderOf(hex)}used-${moment(at)}`;
/** Each removal's own: nobody takes back another's. */
export const removalKey = (hex: string, before: number, id: string): string =>
  `${folderOf(hex)}removed-${moment(before)}-${id}`;
/** Before what a name may consist of: keys are in the order of their names, `a` before `a-b` before `a/b`. */
export const nameFolder = (name: string): string => `${namesFolder}${name}!`;
/** After everything in it. */
export const endOf = (folder: string): string => `${folder}~`;

export function pointerKey({ name, digest, changedAt }: Pointer): string {
  return `${nameFolder(name)}${moment(changedAt)}-${digest?.slice('sha256:'.length) ?? ''}`;
}

/** Of a use or a removal. */
export function momentOf(key: string): number {
  return Number(/(?:used|removed)-(\d+)/.exec(key)?.[1]);
}

/** Of the keys of one blob. */
export function recordOf(digest: string, objects: readonly S3Object[]): BlobRecord {
  const folder = folderOf(digest.slice('sha256:'.length));
  const those = (kind: string) => objects.filter(({ key }) => key.startsWith(`${folder}${kind}-`));
  const keysOf = (kind: string) => those(kind).map(({ key }) => key);
  const [uses, removals] = [keysOf('used'), keysOf('removed')];
  return {
    digest,
    bytes: those('bytes'),
    uses,
    removals,
    usedAt: Math.max(0, ...uses.map(momentOf)),
    removedBefore: removals.length === 0 ? undefined : Math.max(...removals.map(momentOf)),
  };
}

/** Undefined for what is not there, or was not used since it was removed. */
export function heldOf({ digest, bytes, usedAt, removedBefore = 0 }: BlobRecord): Held | undefined {
  const last = bytes.at(-1);
  return last === undefined || usedAt < removedBefore ? undefined : { digest, sizeBytes: last.sizeBytes, usedAt };
}

/** Of the keys of one name, in their order. */
export function pointerOf(keys: readonly string[]): Pointer | undefined {
  const [, name = '', at = '', hex = ''] = /^names\/([^!]+)!(\d+)-([0-9a-f]*)$/.exec(keys.at(-1) ?? '') ?? [];
  return name === '' ? undefined : { name, digest: hex === '' ? null : `sha256:${hex}`, changedAt: Number(at) };
}

/** What a process that died left, or is remembered for long enough: nobody looks at it any more. */
export function leftoversOf(record: BlobRecord, nowMs: number): readonly string[] {
  if (heldOf(record) !== undefined) return [];
  const { bytes, uses, removals, usedAt, removedBefore } = record;
  const ageMs = nowMs - Math.max(usedAt, removedBefore ?? 0);
  const files = bytes.map(({ key }) => key);
  if (ageMs >= removalMemoryMs) return [...files, ...uses, ...removals];
  // Whoever puts it now says first that it is used.
  return ageMs >= leftoverAgeMs ? [...files, ...uses] : [];
}
