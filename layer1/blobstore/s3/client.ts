/** Objects of a bucket: put, read, listed, removed. */
import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { FlynnError, asFlynnError, hasCode, ifFound, messageOf } from '@flynn/kit/errors';
import { type S3Bucket, S3Requests } from './requests.ts';
import type { S3Credentials } from './signature.ts';
import { valueIn, valuesIn } from './xml.ts';

export type S3Object = { key: string; sizeBytes: number };

/** Each part but the last; an upload has at most 10,000, and holds one in memory. */
const defaultPartBytes = 16 * 1024 ** 2;
const maxParts = 10_000;
const abortMs = 60_000;
/** What fails for a while is asked again so long. */
const patienceMs = 10 * 60_000;

/**
 * Errors: `not_found`, `denied`, `invalid` as the service says, with its words; `unavailable` when it does not answer. What it
 * may yet answer is asked again for ten minutes; all of it may be repeated.
 */
export class S3Client {
  readonly #requests: S3Requests;
  readonly #folder: string;
  readonly #partBytes: number;

  /** `folder`: all keys are below it; it ends with "/". */
  constructor(
    bucket: S3Bucket,
    credentials: S3Credentials,
    options: { folder?: string; partBytes?: number; patienceMs?: number } = {},
  ) {
    this.#requests = new S3Requests(bucket, credentials, { patienceMs: options.patienceMs ?? patienceMs });
    this.#folder = options.folder ?? '';
    this.#partBytes = options.partBytes ?? defaultPartBytes;
  }

  /** There whole, or not at all. The service compares every byte with its SHA-256 before it takes it. */
  async upload(
    key: string,
    body: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): Promise<{ sizeBytes: number; sha256: string }> {
    const hash = createHash('sha256');
    let sizeBytes = 0;
    let uploadId: string | undefined;
    const tags: string[] = [];
    const path = this.#pathOf(key);
    try {
      for await (const { bytes, isLast } of partsOf(body, this.#partBytes)) {
        hash.update(bytes);
        sizeBytes += bytes.length;
        if (isLast && uploadId === undefined)
          await this.#requests.send({ method: 'PUT', key: path, body: bytes }, signal);
        else {
          uploadId ??= await this.#begin(key, signal);
          if (tags.length === maxParts) throw tooLarge(key, sizeBytes);
          tags.push(await this.#sendPart(key, { uploadId, partNumber: String(tags.length + 1) }, bytes, signal));
        }
      }
      if (uploadId !== undefined) await this.#complete(key, { uploadId, tags, sizeBytes }, signal);
    } catch (error) {
      if (uploadId !== undefined) await this.#abort(key, uploadId, error);
      throw error;
    }
    if ((await this.#sizeOf(key, signal)) === sizeBytes) return { sizeBytes, sha256: hash.digest('hex') };
    throw new FlynnError('internal', `the service has another ${key} than was sent: somebody else writes it too`);
  }

  /** A small one, in one request. */
  async put(key: string, body: Uint8Array, signal: AbortSignal): Promise<void> {
    await this.#requests.send({ method: 'PUT', key: this.#pathOf(key), body }, signal);
  }

  /** The bytes after the first `from`, of which there has to be one. What breaks while they come is not asked for again. */
  async get(key: string, { from, signal }: { from: number; signal: AbortSignal }): Promise<Readable> {
    const headers: Record<string, string> = from === 0 ? {} : { range: `bytes=${from}-` };
    const response = await this.#requests.stream({ method: 'GET', key: this.#pathOf(key), headers }, signal);
    if (from > 0 && response.status !== 206) {
      await response.body?.cancel();
      throw new FlynnError('internal', `the service sent all of ${key} when asked for what is after ${from} bytes`);
    }
    return response.body === null ? Readable.from([]) : Readable.fromWeb(response.body);
  }

  /** In the order of their keys. */
  list(prefix: string, signal: AbortSignal): Promise<S3Object[]> {
    return Array.fromAsync(this.scan(prefix, { after: '', signal }));
  }

  /** As `list`, page by page, those after the given key. */
  async *scan(prefix: string, { after, signal }: { after: string; signal: AbortSignal }): AsyncGenerator<S3Object> {
    const folder = this.#folder;
    const from: Record<string, string> = after === '' ? {} : { 'start-after': `${folder}${after}` };
    for (let token: string | undefined; ;) {
      const page = token === undefined ? from : { 'continuation-token': token };
      const query = { 'list-type': '2', 'encoding-type': 'url', prefix: `${folder}${prefix}`, ...page };
      const { text } = await this.#requests.send({ method: 'GET', query }, signal);
      for (const one of valuesIn(text, 'Contents')) {
        yield { key: keyIn(one, 'Key').slice(folder.length), sizeBytes: Number(valueIn(one, 'Size')) };
      }
      token = valueIn(text, 'IsTruncated') === 'true' ? valueIn(text, 'NextContinuationToken') : undefined;
      if (token === undefined) return;
    }
  }

  /** What is not there is no error. */
  async remove(key: string, signal: AbortSignal): Promise<void> {
    await this.#requests.send({ method: 'DELETE', key: this.#pathOf(key) }, signal);
  }

  /**
   * Gives up uploads in parts that were begun, of keys with this prefix: whoever was killed meanwhile left them, and they take
   * room that no list shows. `begunBefore`, in milliseconds: for where others may still be at theirs. Asked once.
   */
  async abortUploads(
    prefix: string,
    { begunBefore = Infinity, signal }: { begunBefore?: number; signal: AbortSignal },
  ): Promise<number> {
    const common = { uploads: '', 'encoding-type': 'url', prefix: this.#pathOf(prefix) };
    let count = 0;
    for (let page: Record<string, string> | undefined = {}; page !== undefined;) {
      const { text } = await this.#requests.sendOnce({ method: 'GET', query: { ...common, ...page } }, signal);
      for (const one of valuesIn(text, 'Upload')) {
        const [uploadId, initiated] = [valueIn(one, 'UploadId') ?? '', valueIn(one, 'Initiated') ?? ''];
        // A time that cannot be read says nothing.
        if (begunBefore !== Infinity && !(Date.parse(initiated) < begunBefore)) continue;
        const call = { method: 'DELETE', key: keyIn(one, 'Key'), query: { uploadId } } as const;
        await ifFound(this.#requests.sendOnce(call, signal));
        count += 1;
      }
      page =
        valueIn(text, 'IsTruncated') === 'true'
          ? {
              'key-marker': keyIn(text, 'NextKeyMarker'),
              'upload-id-marker': valueIn(text, 'NextUploadIdMarker') ?? '',
            }
          : undefined;
    }
    return count;
  }

  async #begin(key: string, signal: AbortSignal): Promise<string> {
    const call = { method: 'POST', key: this.#pathOf(key), query: { uploads: '' } } as const;
    const { text } = await this.#requests.send(call, signal);
    const id = valueIn(text, 'UploadId');
    if (id === undefined)
      throw new FlynnError('internal', `the service began an upload of ${key} without a name for it`);
    return id;
  }

  async #sendPart(
    key: string,
    query: { uploadId: string; partNumber: string },
    body: Uint8Array,
    signal: AbortSignal,
  ): Promise<string> {
    const { headers } = await this.#requests.send({ method: 'PUT', key: this.#pathOf(key), query, body }, signal);
    return headers.get('etag') ?? '';
  }

  /** Asked again because an answer was lost, the service knows the upload no more: then the object is what was sent. */
  async #complete(
    key: string,
    { uploadId, tags, sizeBytes }: { uploadId: string; tags: readonly string[]; sizeBytes: number },
    signal: AbortSignal,
  ): Promise<void> {
    const parts = tags.map((tag, index) => `<Part><PartNumber>${index + 1}</PartNumber><ETag>${tag}</ETag></Part>`);
    const body = Buffer.from(`<CompleteMultipartUpload>${parts.join('')}</CompleteMultipartUpload>`);
    try {
      await this.#requests.send({ method: 'POST', key: this.#pathOf(key), query: { uploadId }, body }, signal);
    } catch (error) {
      if (!hasCode(error, 'not_found') || (await this.#sizeOf(key, signal)) !== sizeBytes) throw error;
    }
  }

  /** Undefined for what is not there. */
  async #sizeOf(key: string, signal: AbortSignal): Promise<number | undefined> {
    const head = this.#requests.send({ method: 'HEAD', key: this.#pathOf(key) }, signal);
    const found = await ifFound(head);
    return found === undefined ? undefined : Number(found.headers.get('content-length'));
  }

  /** What is left of it costs room, and nothing else: the first failure is what counts. */
  async #abort(key: string, uploadId: string, because: unknown): Promise<void> {
    try {
      const call = { method: 'DELETE', key: this.#pathOf(key), query: { uploadId } } as const;
      await this.#requests.sendOnce(call, AbortSignal.timeout(abortMs));
    } catch (error) {
      const message = `${messageOf(because)}; what was sent of it could not be removed either: ${messageOf(error)}`;
      throw new FlynnError(asFlynnError(because).code, message, { cause: because });
    }
  }

  #pathOf(key: string): string {
    return `${this.#folder}${key}`;
  }
}

/** The body in parts of that size; there is always one, and the last may be shorter. */
async function* partsOf(
  body: AsyncIterable<Uint8Array>,
  partBytes: number,
): AsyncGenerator<{ bytes: Uint8Array; isLast: boolean }> {
  let waiting: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of body) {
    let rest = chunk;
    // Only once there is more is it known that a full part is not the last.
    while (length + rest.length > partBytes) {
      const taken = rest.subarray(0, partBytes - length);
      yield { bytes: Buffer.concat([...waiting, taken]), isLast: false };
      rest = rest.subarray(taken.length);
      waiting = [];
      length = 0;
    }
    waiting.push(rest);
    length += rest.length;
  }
  yield { bytes: Buffer.concat(waiting), isLast: true };
}

/** Encoded, as it is asked for: XML has no way to say some of them. */
function keyIn(xml: string, name: string): string {
  return decodeURIComponent((valueIn(xml, name) ?? '').replaceAll('+', ' '));
}

function tooLarge(key: string, sizeBytes: number): FlynnError {
  return new FlynnError(
    'exhausted',
    `${key} has more than ${sizeBytes} bytes: S3 takes no more than ${maxParts} parts`,
  );
}
