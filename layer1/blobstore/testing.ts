/** Blob stores in memory, and a network between them that breaks. For tests. */
import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { FlynnError } from '@flynn/kit/errors';
import { type Held, type OwnReplica, type Pointer, type Replica, isLater } from './replica.ts';
import type { Page } from './storage.ts';
import { checkName, hexOf } from './storage.ts';

export async function* chunks(...parts: (string | Uint8Array)[]): AsyncGenerator<Uint8Array> {
  for (const part of parts) yield Buffer.from(part);
}

export function digestOf(data: string | Uint8Array): string {
  return `sha256:${createHash('sha256').update(data).digest('hex')}`;
}

export async function textOf(body: AsyncIterable<Uint8Array>): Promise<string> {
  return (await bytesOf(body)).toString();
}

async function bytesOf(body: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const part of body) parts.push(part);
  return Buffer.concat(parts);
}

type MemoryBlob = { bytes: Buffer; usedAt: number };

/** `now` is its own clock. */
export class MemoryReplica implements OwnReplica {
  readonly blobs = new Map<string, MemoryBlob>();
  readonly removed = new Map<string, number>();
  readonly names = new Map<string, Pointer>();
  readonly #now: () => number;

  constructor(options: { now: () => number }) {
    this.#now = options.now;
  }

  async put(body: AsyncIterable<Uint8Array>, { digest }: { digest?: string | undefined }): Promise<Held> {
    if (digest !== undefined) hexOf(digest);
    const bytes = await bytesOf(body);
    const actual = digestOf(bytes);
    return this.#keep(actual, digest, bytes, Math.max(this.#now(), this.removed.get(actual) ?? 0));
  }

  async copy({ digest, usedAt }: Pick<Held, 'digest' | 'usedAt'>, body: AsyncIterable<Uint8Array>): Promise<Held> {
    hexOf(digest);
    const bytes = await bytesOf(body);
    if (usedAt < (this.removed.get(digest) ?? 0)) throw new FlynnError('conflict', `${digest} was removed since`);
    return this.#keep(digestOf(bytes), digest, bytes, usedAt);
  }

  async open(digest: string, { from = 0 }: { from?: number } = {}): Promise<{ sizeBytes: number; body: Readable }> {
    hexOf(digest);
    const blob = this.blobs.get(digest);
    if (blob === undefined) throw new FlynnError('not_found', `${digest} is not there`);
    const { length } = blob.bytes;
    if (from > length) throw new FlynnError('invalid', `${digest} has ${length} bytes: none is after ${from}`);
    return { sizeBytes: length, body: Readable.from([blob.bytes.subarray(from)], { objectMode: false }) };
  }

  async find(digest: string): Promise<Held | undefined> {
    const blob = this.blobs.get(digest);
    return blob === undefined ? undefined : { digest, sizeBytes: blob.bytes.length, usedAt: blob.usedAt };
  }

  async removedBefore(digest: string): Promise<number | undefined> {
    return this.removed.get(digest);
  }

  async use(digest: string, at: number) {
    const blob = this.blobs.get(digest);
    if (blob === undefined) return undefined;
    blob.usedAt = Math.max(blob.usedAt, at);
    return { digest, sizeBytes: blob.bytes.length };
  }

  async remove({ digest, before }: { digest: string; before: number }): Promise<boolean> {
    if ((this.blobs.get(digest)?.usedAt ?? -1) >= before) return false;
    this.removed.set(digest, Math.max(before, this.removed.get(digest) ?? 0));
    this.blobs.delete(digest);
    return true;
  }

  async list(page: Page): Promise<Held[]> {
    return paged(this.blobs, page).map(([digest, { bytes, usedAt }]) => ({ digest, sizeBytes: bytes.length, usedAt }));
  }

  async removals(page: Page) {
    return paged(this.removed, page).map(([digest, before]) => ({ digest, before }));
  }

  async pointer(name: string): Promise<Pointer | undefined> {
    return this.names.get(checkName(name));
  }

  async point(pointer: Pointer): Promise<void> {
    if (isLater(pointer, this.names.get(checkName(pointer.name)))) this.names.set(pointer.name, pointer);
  }

  async pointers(page: Page): Promise<Pointer[]> {
    return paged(this.names, page).map(([, pointer]) => pointer);
  }

  /** As a disk does it: other bytes under the same digest. */
  damage(digest: string): void {
    const blob = this.blobs.get(digest);
    if (blob !== undefined) blob.bytes = Buffer.from(blob.bytes.map((byte) => byte ^ 1));
  }

  #keep(actual: string, wanted: string | undefined, bytes: Buffer, usedAt: number): Held {
    if (wanted !== undefined && wanted !== actual) throw new FlynnError('invalid', `${actual} is not ${wanted}`);
    const at = Math.max(usedAt, this.blobs.get(actual)?.usedAt ?? 0);
    this.blobs.set(actual, { bytes, usedAt: at });
    this.removed.delete(actual);
    return { digest: actual, sizeBytes: bytes.length, usedAt: at };
  }
}

function paged<T>(all: ReadonlyMap<string, T>, { after, limit }: Page): [string, T][] {
  return [...all]
    .filter(([key]) => key > after)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .slice(0, limit);
}

/**
 * The same store over a network: `fate` is asked before every call, and again after it. When it says so the call fails
 * without effect, or with its answer lost.
 */
export function overNetwork(replica: Replica, fate: (when: 'before' | 'after') => boolean): Replica {
  const broken = () => new FlynnError('unavailable', 'the network is broken');
  const carry = async <T>(call: () => Promise<T>): Promise<T> => {
    if (fate('before')) throw broken();
    const answer = await call();
    if (fate('after')) throw broken();
    return answer;
  };
  return {
    copy: (held, body, options) => carry(() => replica.copy(held, body, options)),
    open: (digest, options) => carry(() => replica.open(digest, options)),
    find: (digest) => carry(() => replica.find(digest)),
    use: (digest, at) => carry(() => replica.use(digest, at)),
    remove: (removal) => carry(() => replica.remove(removal)),
    list: (page) => carry(() => replica.list(page)),
    removals: (page) => carry(() => replica.removals(page)),
    pointer: (name) => carry(() => replica.pointer(name)),
    point: (pointer) => carry(() => replica.point(pointer)),
    pointers: (page) => carry(() => replica.pointers(page)),
  };
}
