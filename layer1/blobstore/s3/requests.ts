/**
 * Signed requests to a service that speaks S3, asked again while it may yet answer. Objects are addressed by path, which all of
 * them take.
 */
import { FlynnError, asFlynnError, codeOfHttpStatus, messageOf } from '@flynn/kit/errors';
import { retry, withDeadline } from '@flynn/kit/retry';
import { type S3Credentials, encoded, sha256, signedHeaders } from './signature.ts';
import { valueIn } from './xml.ts';

export type S3Bucket = Readonly<{
  /** `https://s3.eu-central-1.amazonaws.com`. */
  endpoint: string;
  region: string;
  bucket: string;
}>;

export type S3Call = {
  method: 'GET' | 'HEAD' | 'PUT' | 'POST' | 'DELETE';
  /** Without one it is asked of the bucket. */
  key?: string;
  query?: Readonly<Record<string, string>>;
  headers?: Readonly<Record<string, string>>;
  body?: Uint8Array;
};

type Answer = { headers: Headers; text: string };

/** Of one, its answer included. */
const requestMs = 5 * 60_000;

/**
 * Errors: `not_found`, `denied`, `invalid` as the service says, with its words; `unavailable` or `timeout` when it does not
 * answer.
 */
export class S3Requests {
  readonly #bucket: S3Bucket;
  readonly #credentials: S3Credentials;
  readonly #patienceMs: number;

  /** `patienceMs`: how long what fails for a while is asked again. */
  constructor(bucket: S3Bucket, credentials: S3Credentials, { patienceMs }: { patienceMs: number }) {
    this.#bucket = bucket;
    this.#credentials = credentials;
    this.#patienceMs = patienceMs;
  }

  /** Has to be one that may be repeated. */
  send(call: S3Call, signal: AbortSignal): Promise<Answer> {
    return this.#patiently((limited) => this.sendOnce(call, limited), signal);
  }

  async sendOnce(call: S3Call, signal: AbortSignal): Promise<Answer> {
    const limited = withDeadline(requestMs, signal);
    const response = await this.#begin(call, limited);
    const text = await this.#reached(() => response.text(), limited);
    // It may fail after its head was sent.
    if (valueIn(text, 'Error') !== undefined) throw refusal(500, text, this.#nameOf(call));
    return { headers: response.headers, text };
  }

  /** The deadline ends with the head, the signal goes on; what breaks while the body comes is not asked for again. */
  stream(call: S3Call, signal: AbortSignal): Promise<Response> {
    return this.#patiently(async (limited) => {
      const head = new AbortController();
      const late = withDeadline(requestMs, limited);
      const end = (): void => head.abort(late.reason);
      late.addEventListener('abort', end, { once: true });
      try {
        return await this.#begin(call, AbortSignal.any([signal, head.signal]));
      } finally {
        late.removeEventListener('abort', end);
      }
    }, signal);
  }

  #patiently<T>(ask: (limited: AbortSignal) => Promise<T>, signal: AbortSignal): Promise<T> {
    const what = `${this.#bucket.bucket} at ${this.#bucket.endpoint}`;
    return retry(ask, { what, signal, deadlineMs: this.#patienceMs, minMs: 200, maxMs: 30_000 });
  }

  async #begin(call: S3Call, signal: AbortSignal): Promise<Response> {
    const { method, query = {}, headers: more = {}, body } = call;
    const url = new URL(`${this.#bucket.endpoint.replace(/\/$/, '')}/${this.#pathOf(call).map(encoded).join('/')}`);
    url.search = Object.entries(query)
      .map(([name, value]) => `${encoded(name)}=${encoded(value)}`)
      .join('&');
    const request = { method, url, headers: more, payloadSha256: sha256(body ?? '') };
    const signing = { credentials: this.#credentials, region: this.#bucket.region, nowMs: Date.now() };
    const { host: _host, ...headers } = signedHeaders(request, signing);
    const init: RequestInit = { method, headers, redirect: 'manual', signal, ...(body === undefined ? {} : { body }) };
    const response = await this.#reached(() => fetch(url, init), signal);
    if (response.ok) return response;
    throw refusal(response.status, await this.#reached(() => response.text(), signal), this.#nameOf(call));
  }

  async #reached<T>(ask: () => Promise<T>, signal: AbortSignal): Promise<T> {
    try {
      return await ask();
    } catch (error) {
      if (signal.aborted) throw asFlynnError(signal.reason);
      const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
      throw new FlynnError('unavailable', `cannot reach ${this.#bucket.endpoint}: ${messageOf(cause)}`, {
        cause: error,
      });
    }
  }

  #pathOf({ key }: S3Call): string[] {
    return [this.#bucket.bucket, ...(key === undefined ? [] : key.split('/'))];
  }

  #nameOf(call: S3Call): string {
    return `${call.method} ${this.#pathOf(call).join('/')}`;
  }
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

/** Of those that say it is the request's fault: the connection was too slow, or somebody else was at it at that moment. */
const passing = new Set(['RequestTimeout', 'OperationAborted']);

function refusal(status: number, text: string, what: string): FlynnError {
  const name = valueIn(text, 'Code') ?? '';
  const said = [name, valueIn(text, 'Message') ?? ''].filter((part) => part !== '').join(': ');
  const code = status >= 500 || passing.has(name) ? 'unavailable' : status < 400 ? 'invalid' : codeOfHttpStatus(status);
  const remedy = remedies[name] === undefined ? '' : `; ${remedies[name]}`;
  return new FlynnError(code, `the S3 service refused ${what}: ${said === '' ? `status ${status}` : said}${remedy}`);
}
