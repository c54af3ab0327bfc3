/** A store's copies in a bucket, where other stores have theirs too: what one of them puts all have. */
import { createReadStream } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable, pipeline } from 'node:stream';
import type { Clock } from '@flynn/kit/clock';
import { openDownload } from '@flynn/kit/download';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { newId } from '@flynn/kit/ids';
import type { Blob } from '../api.ts';
import { checkDigest } from '../client.ts';
import { isLater, removalMemoryMs } from '../replica.ts';
import type { Held, OwnReplica, Pointer, Removal } from '../replica.ts';
import { beyondEnd, checkSame, removedSince, translated, writeDurably } from '../spool.ts';
import { checkName, hexOf } from '../storage.ts';
import type { Page } from '../storage.ts';
import type { S3Client, S3Object } from './client.ts';
import * as records from './record.ts';
import type { BlobRecord } from './record.ts';

type Limits = { signal?: AbortSignal | undefined };

const never = new AbortController().signal;
const nothing = Buffer.alloc(0);
/** A put that takes the place of the bytes that are about to be read; each time there are others. */
const maxReplaced = 5;

/**
 * INVARIANTS. It needs a service whose lists show at once what was put, and nothing else of it: no locks, no conditions.
 * Whoever uses a blob writes that and then looks for removals, whoever removes it writes that and then looks for uses: so
 * one of them sees the other. A removal takes only bytes that it has seen, a put only bytes from before its own.
 */
export class S3Replica implements OwnReplica {
  readonly #client: S3Client;
  readonly #spoolDir: string;
  readonly #clock: Pick<Clock, 'now'>;
  readonly #onDamaged: (digest: string) => void;

  /** `spoolDir`: for what is on its way. `onDamaged`: of bytes the service gave that are not those of their digest. */
  constructor(options: {
    client: S3Client;
    spoolDir: string;
    clock: Pick<Clock, 'now'>;
    onDamaged?: (digest: string) => void;
  }) {
    this.#client = options.client;
    this.#spoolDir = options.spoolDir;
    this.#clock = options.clock;
    this.#onDamaged = options.onDamaged ?? (() => undefined);
  }

  /** Does all that will be asked of it once, on an object of its own: what it may not do is better known now. */
  async check(signal: AbortSignal): Promise<void> {
    const key = `check-${newId()}`;
    for await (const _ of this.#client.scan(records.blobsFolder, { after: '', signal })) break;
    await this.#client.put(key, Buffer.from(key), signal);
    const body = await this.#client.get(key, { from: 0, signal });
    const read = Buffer.concat(await body.toArray()).toString();
    await this.#client.remove(key, signal);
    if (read !== key) throw new FlynnError('internal', 'the S3 service gave other bytes than were just put');
  }

  /** What stores that were killed had sent of blobs. Others may be at theirs, but not for so long. */
  async clear(signal: AbortSignal): Promise<void> {
    const begunBefore = this.#clock.now() - records.leftoverAgeMs;
    await this.#client.abortUploads(records.blobsFolder, { begunBefore, signal });
  }

  put(body: AsyncIterable<Uint8Array>, { digest, signal }: Limits & { digest?: string | undefined }): Promise<Held> {
    return this.#keep(body, { digest, signal });
  }

  copy({ digest, usedAt }: Pick<Held, 'digest' | 'usedAt'>, body: AsyncIterable<Uint8Array>, { signal }: Limits = {}) {
    return this.#keep(body, { digest, usedAt, signal });
  }

  async open(digest: string, { from = 0, signal = never }: Limits & { from?: number } = {}) {
    const held = await this.find(digest, { signal });
    if (held === undefined) throw new FlynnError('not_found', `the blob ${digest} is not in the blob store`);
    const { sizeBytes } = held;
    if (from > sizeBytes) throw beyondEnd(digest, sizeBytes, from);
    const what = `the blob ${digest}`;
    const body = await openDownload((at, limits) => this.#bytes(digest, from + at, limits.signal), { what, signal });
    if (from > 0) return { sizeBytes, body };
    const checked = pipeline(
      body,
      checkDigest(digest, () => this.#onDamaged(digest)),
      () => {
        // The reader of the returned stream is told of any failure by that stream.
      },
    );
    return { sizeBytes, body: checked };
  }

  async find(digest: string, { signal = never }: Limits = {}): Promise<Held | undefined> {
    return records.heldOf(await this.#record(digest, signal));
  }

  async removedBefore(digest: string): Promise<number | undefined> {
    return (await this.#record(digest, never)).removedBefore;
  }

  async use(digest: string, at: number, { signal = never }: Limits = {}): Promise<Blob | undefined> {
    const held = await this.find(digest, { signal });
    if (held === undefined) return undefined;
    const blob = { digest, sizeBytes: held.sizeBytes };
    if (held.usedAt >= at) return blob;
    const key = records.useKey(hexOf(digest), at);
    await this.#client.put(key, nothing, signal);
    const record = await this.#record(digest, signal);
    if (records.heldOf(record) === undefined) return undefined;
    // It may not have seen this use, and take these bytes yet: others are put in their place.
    if (record.removals.length > 0) return this.#renew(digest, at, signal);
    await this.#removeAll(earlier(record.uses, at), signal);
    return blob;
  }

  async remove({ digest, before }: Removal, { signal = never }: Limits = {}): Promise<boolean> {
    const hex = hexOf(digest);
    const known = await this.#record(digest, signal);
    if ((records.heldOf(known)?.usedAt ?? -1) >= before) return false;
    const own = records.removalKey(hex, before, newId());
    const isNew = known.removedBefore === undefined || known.removedBefore < before;
    if (isNew || known.bytes.length > 0) await this.#client.put(own, nothing, signal);
    const record = await this.#record(digest, signal);
    if (record.bytes.length > 0 && record.usedAt >= before) {
      await this.#client.remove(own, signal);
      return false;
    }
    const bytes = record.bytes.map(({ key }) => key);
    const uses = earlier(record.uses, before);
    await this.#removeAll([...bytes, ...uses, ...earlier(record.removals, before)], signal);
    return true;
  }

  async list({ after, limit }: Page, { signal = never }: Limits = {}): Promise<Held[]> {
    const found: Held[] = [];
    for await (const record of this.#records(after, signal)) {
      const held = records.heldOf(record);
      if (held !== undefined) found.push(held);
      if (found.length >= limit) break;
    }
    return found;
  }

  async removals({ after, limit }: Page, { signal = never }: Limits = {}): Promise<Removal[]> {
    const found: Removal[] = [];
    for await (const record of this.#records(after, signal)) {
      const { digest, removedBefore: before } = record;
      if (before !== undefined && records.heldOf(record) === undefined) found.push({ digest, before });
      if (found.length >= limit) break;
    }
    return found;
  }

  async pointer(name: string, { signal = never }: Limits = {}): Promise<Pointer | undefined> {
    const objects = await this.#client.list(records.nameFolder(checkName(name)), signal);
    return records.pointerOf(objects.map(({ key }) => key));
  }

  async point(pointer: Pointer, { signal = never }: Limits = {}): Promise<void> {
    const folder = records.nameFolder(checkName(pointer.name));
    const keys = (await this.#client.list(folder, signal)).map(({ key }) => key);
    if (!isLater(pointer, records.pointerOf(keys))) return;
    await this.#client.put(records.pointerKey(pointer), nothing, signal);
    await this.#removeAll(keys, signal);
  }

  async pointers({ after, limit }: Page, { signal = never }: Limits = {}): Promise<Pointer[]> {
    const found: Pointer[] = [];
    const from = after === '' ? '' : records.endOf(records.nameFolder(checkName(after)));
    const forgottenMs = this.#clock.now() - removalMemoryMs;
    for await (const { objects } of this.#groups(records.namesFolder, /^names\/[^!]+!/, from, signal)) {
      const keys = objects.map(({ key }) => key);
      const pointer = records.pointerOf(keys);
      if (pointer === undefined) continue;
      const isForgotten = pointer.digest === null && pointer.changedAt < forgottenMs;
      await this.#removeAll(isForgotten ? keys : keys.slice(0, -1), signal);
      found.push(pointer);
      if (found.length >= limit) break;
    }
    return found;
  }

  /** With `usedAt` a copy. */
  async #keep(
    body: AsyncIterable<Uint8Array>,
    { digest, usedAt, signal = never }: Limits & { digest?: string | undefined; usedAt?: number },
  ): Promise<Held> {
    if (digest !== undefined) hexOf(digest);
    await mkdir(this.#spoolDir, { recursive: true });
    const file = join(this.#spoolDir, newId());
    try {
      return await translated('the blob', async () => {
        const blob = await writeDurably(file, body, signal);
        checkSame(digest, blob);
        return await this.#take(blob, { file, usedAt, signal });
      });
    } finally {
      await rm(file, { force: true });
    }
  }

  async #take(
    { digest, sizeBytes }: Blob,
    { file, usedAt, signal }: { file: string; usedAt: number | undefined; signal: AbortSignal },
  ): Promise<Held> {
    const hex = hexOf(digest);
    const before = await this.#record(digest, signal);
    const removed = before.removedBefore ?? 0;
    if (usedAt !== undefined && usedAt < removed) throw removedSince(digest);
    let at = Math.max(usedAt ?? Math.max(this.#clock.now(), removed), before.usedAt);
    const superseded = before.bytes.map(({ key }) => key);
    for (;;) {
      const own = records.bytesKey(hex, newId());
      // In this order: a removal that does not see the use does not see the bytes either, and leaves them.
      await this.#client.put(records.useKey(hex, at), nothing, signal);
      await this.#client.upload(own, createReadStream(file), signal);
      const after = await this.#record(digest, signal);
      if (after.removedBefore === undefined || after.removedBefore <= at) {
        const dominated = after.removals.filter((key) => records.momentOf(key) <= at);
        await this.#removeAll([...superseded, ...earlier(after.uses, at), ...dominated], signal);
        return { digest, sizeBytes, usedAt: at };
      }
      if (usedAt !== undefined) {
        await this.#client.remove(own, signal);
        throw removedSince(digest);
      }
      // That removal is of later, and may be about to take these bytes: others are put, with a use that it has to see.
      superseded.push(own);
      at = after.removedBefore;
    }
  }

  async #renew(digest: string, at: number, signal: AbortSignal): Promise<Blob | undefined> {
    try {
      const { body } = await this.open(digest, { signal });
      const { sizeBytes } = await this.#keep(body, { digest, usedAt: at, signal });
      return { digest, sizeBytes };
    } catch (error) {
      if (hasCode(error, 'not_found', 'conflict')) return undefined;
      throw error;
    }
  }

  /** Of whichever bytes are there: what is put again takes the place of what is being read. */
  async #bytes(digest: string, from: number, signal: AbortSignal): Promise<Readable> {
    for (let attempt = 1; ; attempt += 1) {
      const last = (await this.#record(digest, signal)).bytes.at(-1);
      if (last === undefined) throw new FlynnError('not_found', `the blob ${digest} is not in the blob store`);
      if (from === last.sizeBytes) return Readable.from([]);
      try {
        return await this.#client.get(last.key, { from, signal });
      } catch (error) {
        if (!hasCode(error, 'not_found') || attempt === maxReplaced) throw error;
      }
    }
  }

  async #record(digest: string, signal: AbortSignal): Promise<BlobRecord> {
    return records.recordOf(digest, await this.#client.list(records.folderOf(hexOf(digest)), signal));
  }

  /** Takes away what is left over as it comes by, and tells it a last time. */
  async *#records(after: string, signal: AbortSignal): AsyncGenerator<BlobRecord> {
    const from = after === '' ? '' : records.endOf(records.folderOf(hexOf(after)));
    for await (const { folder, objects } of this.#groups(records.blobsFolder, /^blobs\/[0-9a-f]{64}\//, from, signal)) {
      const record = records.recordOf(`sha256:${folder.slice(records.blobsFolder.length, -1)}`, objects);
      await this.#removeAll(records.leftoversOf(record, this.#clock.now()), signal);
      yield record;
    }
  }

  /** Keys one after the other that begin with the same match; what is not ours is passed over. */
  async *#groups(
    prefix: string,
    pattern: RegExp,
    after: string,
    signal: AbortSignal,
  ): AsyncGenerator<{ folder: string; objects: S3Object[] }> {
    let group: { folder: string; objects: S3Object[] } | undefined;
    for await (const object of this.#client.scan(prefix, { after, signal })) {
      const folder = pattern.exec(object.key)?.[0];
      if (folder === undefined) continue;
      if (group?.folder === folder) group.objects.push(object);
      else {
        if (group !== undefined) yield group;
        group = { folder, objects: [object] };
      }
    }
    if (group !== undefined) yield group;
  }

  async #removeAll(keys: readonly string[], signal: AbortSignal): Promise<void> {
    await Promise.all(keys.map((key) => this.#client.remove(key, signal)));
  }
}

function earlier(keys: readonly string[], ms: number): string[] {
  return keys.filter((key) => records.momentOf(key) < ms);
}
