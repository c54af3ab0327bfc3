/** What is asked of a service that speaks S3: AWS's own, or one's own. Objects are addressed by path, which all of them take. */
import { createHash } from 'node:crypto';
import { FlynnError, asFlynnError, codeOfHttpStatus, messageOf } from '@flynn/kit/errors';
import { retry, withDeadline } from '@flynn/kit/retry';
import { type S3Credentials, encoded, sha256, signedHeaders } from './signature.ts';
import { valueIn, valuesIn } from './xml.ts';

export type S3Bucket = Readonly<{
  /** `https://s3.eu-central-1.amazonaws.com`. */
  endpoint: string;
  region: string;
  bucket: string;
}>;

export type S3Object = { key: string; sizeBytes: number };

type Call = {
  method: 'GET' | 'HEAD' | 'PUT' | 'POST' | 'DELETE';
  key?: string;
  query?: Readonly<Record<string, string>>;
  body?: Uint8Array;
};

/** Each part but the last; an upload has at most 10,000, and holds one in memory. */
const defaultPartBytes = 16 * 1024 ** 2;
const maxParts = 10_000;
const requestMs = 5 * 60_000;
/** What fails for a while is asked again so long. */
const patienceMs = 10 * 60_000;

/**
 * Errors: `not_found`, `denied`, `invalid` as the service says, with its words; `unavailable` when it does not answer. What it
 * may yet answer is asked again for ten minutes; all of it may be repeated.
 */
export class S3Client {
  readonly #bucket: S3Bucket;
  readonly #credentials: S3Credentials;
  readonly #partBytes: number;
  readonly #patienceMs: number;

  constructor(bucket: S3Bucket, credentials: S3Credentials, options: { partBytes?: number; patienceMs?: number } = {}) {
    this.#bucket = bucket;
    this.#credentials = credentials;
    this.#partBytes = options.partBytes ?? defaultPartBytes;
    this.#patienceMs = options.patienceMs ?? patienceMs;
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
    try {
      for await (const { bytes, isLast } of partsOf(body, this.#partBytes)) {
        hash.update(bytes);
        sizeBytes += bytes.length;
        if (isLast && uploadId === undefined) await this.#send({ method: 'PUT', key, body: bytes }, signal);
        else {
          uploadId ??= await this.#begin(key, signal);
          if (tags.length === maxParts) throw tooLarge(key, sizeBytes);
          tags.push(await this.#sendPart(key, { uploadId, partNumber: String(tags.length + 1) }, bytes, signal));
        }
      }
      if (uploadId !== undefined) await this.#complete(key, uploadId, tags, signal);
    } catch (error) {
      if (uploadId !== undefined) await this.#abort(key, uploadId, error);
      throw error;
    }
    const stored = await this.#send({ method: 'HEAD', key }, signal);
    if (Number(stored.headers.get('content-length')) === sizeBytes) return { sizeBytes, sha256: hash.digest('hex') };
    throw new FlynnError('internal', `the service has another ${key} than was sent: somebody else writes it too`);
  }

  /** In the order of their keys. */
  async list(prefix: string, signal: AbortSignal): Promise<S3Object[]> {
    const found: S3Object[] = [];
    for (let token: string | undefined; ;) {
      const query = { 'list-type': '2', 'encoding-type': 'url', prefix, ...(token && { 'continuation-token': token }) };
      const text = await (await this.#send({ method: 'GET', query }, signal)).text();
      for (const one of valuesIn(text, 'Contents')) {
        const key = decodeURIComponent((valueIn(one, 'Key') ?? '').replaceAll('+', ' '));
        found.push({ key, sizeBytes: Number(valueIn(one, 'Size')) });
      }
      token = valueIn(text, 'IsTruncated') === 'true' ? valueIn(text, 'NextContinuationToken') : undefined;
      if (token === undefined) return found;
    }
  }

  /** What is not there is no error. */
  async remove(key: string, signal: AbortSignal): Promise<void> {
    await this.#send({ method: 'DELETE', key }, signal);
  }

  async #begin(key: string, signal: AbortSignal): Promise<string> {
    const text = await (await this.#send({ method: 'POST', key, query: { uploads: '' } }, signal)).text();
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
    const { headers } = await this.#send({ method: 'PUT', key, query, body }, signal);
    return headers.get('etag') ?? '';
  }

  async #complete(key: string, uploadId: string, tags: readonly string[], signal: AbortSignal): Promise<void> {
    const parts = tags.map((tag, index) => `<Part><PartNumber>${index + 1}</PartNumber><ETag>${tag}</ETag></Part>`);
    const body = Buffer.from(`<CompleteMultipartUpload>${parts.join('')}</CompleteMultipartUpload>`);
    const text = await (await this.#send({ method: 'POST', key, query: { uploadId }, body }, signal)).text();
    // It may fail after its head was sent.
    if (valueIn(text, 'Code') !== undefined) throw refusal(500, text, `finishing ${key}`);
  }

  /** What is left of it costs room, and nothing else: the first failure is what counts. */
  async #abort(key: string, uploadId: string, because: unknown): Promise<void> {
    try {
      await this.#once({ method: 'DELETE', key, query: { uploadId } }, AbortSignal.timeout(requestMs));
    } catch (error) {
      const message = `${messageOf(because)}; what was sent of it could not be removed either: ${messageOf(error)}`;
      throw new FlynnError(asFlynnError(because).code, message, { cause: because });
    }
  }

  #send(call: Call, signal: AbortSignal): Promise<Response> {
    const what = `${this.#bucket.bucket} at ${this.#bucket.endpoint}`;
    const options = { what, signal, deadlineMs: this.#patienceMs, minMs: 200, maxMs: 30_000 };
    return retry((limited) => this.#once(call, limited), options);
  }

  async #once({ method, key = '', query = {}, body }: Call, signal: AbortSignal): Promise<Response> {
    const { endpoint, region, bucket } = this.#bucket;
    const path = [bucket, ...key.split('/')].map(encoded).join('/');
    const url = new URL(`${endpoint.replace(/\/$/, '')}/${path}`);
    url.search = Object.entries(query)
      .map(([name, value]) => `${encoded(name)}=${encoded(value)}`)
      .join('&');
    const request = { method, url, headers: {}, payloadSha256: sha256(body ?? '') };
    const signing = { credentials: this.#credentials, region, nowMs: Date.now() };
    const { host: _host, ...headers } = signedHeaders(request, signing);
    const response = await this.#fetch(url, { method, headers, ...(body === undefined ? {} : { body }) }, signal);
    if (response.ok) return response;
    throw refusal(response.status, await response.text(), `${method} ${bucket}/${key}`);
  }

  async #fetch(url: URL, init: RequestInit, signal: AbortSignal): Promise<Response> {
    try {
      return await fetch(url, { ...init, redirect: 'error', signal: withDeadline(requestMs, signal) });
    } catch (error) {
      signal.throwIfAborted();
      const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
      throw new FlynnError('unavailable', `cannot reach ${url.origin}: ${messageOf(cause)}`, { cause: error });
    }
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

function refusal(status: number, text: string, what: string): FlynnError {
  const said = [valueIn(text, 'Code'), valueIn(text, 'Message')].filter((part) => part !== undefined).join(': ');
  const code = status >= 500 ? 'unavailable' : codeOfHttpStatus(status);
  return new FlynnError(code, `the S3 service refused ${what}: ${said === '' ? `status ${status}` : said}`);
}

function tooLarge(key: string, sizeBytes: number): FlynnError {
  return new FlynnError(
    'exhausted',
    `${key} has more than ${sizeBytes} bytes: S3 takes no more than ${maxParts} parts`,
  );
}
