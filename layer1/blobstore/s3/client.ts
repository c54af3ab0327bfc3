/** What is asked of a service that speaks S3: AWS's own, or one's own. Objects are addressed by path, which all of them take. */
import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
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
  headers?: Readonly<Record<string, string>>;
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
  readonly #folder: string;
  readonly #partBytes: number;
  readonly #patienceMs: number;

  /** `folder`: all keys are below it; it ends with "/". */
  constructor(
    bucket: S3Bucket,
    credentials: S3Credentials,
    options: { folder?: string; partBytes?: number; patienceMs?: number } = {},
  ) {
    this.#bucket = bucket;
    this.#credentials = credentials;
    this.#folder = options.folder ?? '';
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

  /** A small one, in one request. */
  async put(key: string, body: Uint8Array, signal: AbortSignal): Promise<void> {
    await this.#send({ method: 'PUT', key, body }, signal);
  }

  /** The bytes after the first `from`, of which there has to be one. What breaks while they come is not asked for again. */
  async get(key: string, { from, signal }: { from: number; signal: AbortSignal }): Promise<Readable> {
    const headers: Record<string, string> = from === 0 ? {} : { range: `bytes=${from}-` };
    const response = await this.#send({ method: 'GET', key, headers }, signal, { isStream: true });
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
      const text = await (await this.#send({ method: 'GET', query }, signal)).text();
      for (const one of valuesIn(text, 'Contents')) {
        const key = decodeURIComponent((valueIn(one, 'Key') ?? '').replaceAll('+', ' '));
        yield { key: key.slice(folder.length), sizeBytes: Number(valueIn(one, 'Size')) };
      }
      token = valueIn(text, 'IsTruncated') === 'true' ? valueIn(text, 'NextContinuationToken') : undefined;
      if (token === undefined) return;
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

  /** Of a stream the deadline ends with the head; the signal goes on. */
  #send(call: Call, signal: AbortSignal, { isStream = false } = {}): Promise<Response> {
    const what = `${this.#bucket.bucket} at ${this.#bucket.endpoint}`;
    const options = { what, signal, deadlineMs: this.#patienceMs, minMs: 200, maxMs: 30_000 };
    return retry(async (limited) => {
      if (!isStream) return this.#once(call, withDeadline(requestMs, limited));
      const head = new AbortController();
      const late = withDeadline(requestMs, limited);
      const end = (): void => head.abort(late.reason);
      late.addEventListener('abort', end, { once: true });
      try {
        return await this.#once(call, AbortSignal.any([signal, head.signal]));
      } finally {
        late.removeEventListener('abort', end);
      }
    }, options);
  }

  async #once({ method, key, query = {}, headers: more = {}, body }: Call, signal: AbortSignal): Promise<Response> {
    const { endpoint, region, bucket } = this.#bucket;
    const below = key === undefined ? [] : `${this.#folder}${key}`.split('/');
    const path = [bucket, ...below].map(encoded).join('/');
    const url = new URL(`${endpoint.replace(/\/$/, '')}/${path}`);
    url.search = Object.entries(query)
      .map(([name, value]) => `${encoded(name)}=${encoded(value)}`)
      .join('&');
    const request = { method, url, headers: more, payloadSha256: sha256(body ?? '') };
    const signing = { credentials: this.#credentials, region, nowMs: Date.now() };
    const { host: _host, ...headers } = signedHeaders(request, signing);
    const response = await this.#fetch(url, { method, headers, ...(body === undefined ? {} : { body }) }, signal);
    if (response.ok) return response;
    throw refusal(response.status, await response.text(), `${method} ${[bucket, ...below].join('/')}`);
  }

  async #fetch(url: URL, init: RequestInit, signal: AbortSignal): Promise<Response> {
    try {
      return await fetch(url, { ...init, redirect: 'manual', signal });
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
  const name = valueIn(text, 'Code') ?? '';
  const said = [name, valueIn(text, 'Message') ?? ''].filter((part) => part !== '').join(': ');
  const code = status >= 500 ? 'unavailable' : status < 400 ? 'invalid' : codeOfHttpStatus(status);
  const remedy = remedies[name] === undefined ? '' : `; ${remedies[name]}`;
  return new FlynnError(code, `the S3 service refused ${what}: ${said === '' ? `status ${status}` : said}${remedy}`);
}

/** What to do, by the service's own name for what is wrong. */
const remedies: Readonly<Record<string, string>> = {
  RequestTimeTooSkewed:
    'the clock of this host and that of the service differ: flynn doctor says whether it is this one',
  InvalidAccessKeyId: 'is AWS_ACCESS_KEY_ID of this service?',
  SignatureDoesNotMatch: 'is AWS_SECRET_ACCESS_KEY the one of that key?',
  AccessDenied: 'the key has to be allowed to list the bucket and to put, read and delete its objects',
  NoSuchBucket: 'make the bucket first, or correct its name',
  PermanentRedirect: 'the bucket is in another region, or at another endpoint',
  AuthorizationHeaderMalformed: 'the bucket is in another region',
};

function tooLarge(key: string, sizeBytes: number): FlynnError {
  return new FlynnError(
    'exhausted',
    `${key} has more than ${sizeBytes} bytes: S3 takes no more than ${maxParts} parts`,
  );
}
