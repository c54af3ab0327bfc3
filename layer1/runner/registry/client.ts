/** Reads from a registry, as the OCI distribution specification has it. Every answer to a digest is checked against it. */
import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import type { ReadableStream } from 'node:stream/web';
import { openDownload } from '@flynn/kit/download';
import { FlynnError, asFlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import { usualSilenceMs } from '@flynn/kit/silence';
import { confinedTo, type Fetch } from './confined-fetch.ts';
import type { Reference } from './reference.ts';

export type Login = {
  username: string;
  password: string;
  /** The runner's own, which the cluster does not know. */
  isOwn?: boolean;
};

export type RegistryAccess = {
  /** By registry, as references name it. */
  logins: Readonly<Record<string, Login>>;
  /** It is asked without TLS. */
  isPlain: boolean;
  /** It leads to nothing else in the network that the runner is in. */
  isConfined: boolean;
};

export type RegistryPatience = Readonly<{
  /** So long it may take to begin an answer, and to send one that is read as a text. */
  answerMs: number;
  /** A layer may take as long as it gets on. After such a silence it is asked for anew, from where it broke off. */
  silenceMs: number;
}>;

const usualPatience: RegistryPatience = { answerMs: 30_000, silenceMs: usualSilenceMs };
const maxTextBytes = 8 * 1024 ** 2;
const manifestTypes = [
  'application/vnd.oci.image.index.v1+json',
  'application/vnd.oci.image.manifest.v1+json',
  'application/vnd.docker.distribution.manifest.list.v2+json',
  'application/vnd.docker.distribution.manifest.v2+json',
].join(', ');

export class Registry {
  readonly #reference: Reference;
  readonly #access: RegistryAccess;
  readonly #fetchFrom: Fetch;
  readonly #signal: AbortSignal;
  readonly #patience: RegistryPatience;
  #authorization: string | undefined;

  constructor(reference: Reference, access: RegistryAccess, signal: AbortSignal, patience = usualPatience) {
    this.#reference = reference;
    this.#access = access;
    this.#fetchFrom = access.isConfined ? confinedTo(reference.registry) : fetch;
    this.#signal = signal;
    this.#patience = patience;
  }

  /** By tag or digest. */
  async manifest(version: string): Promise<{ text: string; digest: string }> {
    return this.#text(`manifests/${version}`, { accept: manifestTypes }, version);
  }

  async text(digest: string): Promise<string> {
    return (await this.#text(`blobs/${digest}`, {}, digest)).text;
  }

  /**
   * As it is, and not checked: whoever stores it does. A connection that breaks or goes silent costs only what it did not bring,
   * but of a registry that gives no parts: then the stream fails with `conflict`, and all of it may be asked for anew. It has to
   * be read to its end or destroyed.
   */
  async blob({ digest, size }: { digest: string; size: number }, signal: AbortSignal): Promise<Readable> {
    const what = `the download of ${digest} from the registry ${this.#reference.registry}`;
    return openDownload((from, limits) => this.#blobFrom({ digest, size, from }, limits.signal), {
      what,
      signal,
      silenceMs: this.#patience.silenceMs,
    });
  }

  async #blobFrom(
    { digest, size, from }: { digest: string; size: number; from: number },
    signal: AbortSignal,
  ): Promise<Readable> {
    // All of it came, and then its connection broke: a registry has no answer to what is behind the end.
    if (from > 0 && from >= size) return Readable.from([]);
    // Of compressed bytes nobody could say where they go on.
    const plain = { 'accept-encoding': 'identity' };
    const headers = from === 0 ? plain : { ...plain, range: `bytes=${from}-` };
    const response = await this.#get(`blobs/${digest}`, headers, signal);
    if (response.body === null) throw this.#strange(`no bytes for ${digest}`);
    const body = Readable.fromWeb(response.body as ReadableStream<Uint8Array>);
    const part = response.headers.get('content-range') ?? '';
    if (from === 0 ? response.status === 200 : response.status === 206 && part.startsWith(`bytes ${from}-`))
      return body;
    body.destroy();
    const { registry } = this.#reference;
    throw new FlynnError('conflict', `the registry ${registry} does not go on with ${digest} where it broke off`);
  }

  async #text(
    path: string,
    headers: Record<string, string>,
    version: string,
  ): Promise<{ text: string; digest: string }> {
    return this.#inTime(async (signal) => this.#textOf(await this.#get(path, headers, signal), version), this.#signal);
  }

  async #textOf(response: Response, version: string): Promise<{ text: string; digest: string }> {
    const bytes: Uint8Array[] = [];
    let size = 0;
    for await (const chunk of response.body ?? []) {
      size += chunk.length;
      if (size > maxTextBytes) throw this.#strange(`more than ${maxTextBytes} bytes for ${version}`);
      bytes.push(chunk);
    }
    const whole = Buffer.concat(bytes);
    const digest = `sha256:${createHash('sha256').update(whole).digest('hex')}`;
    if (version.startsWith('sha256:') && version !== digest) throw this.#strange(`${digest} when asked for ${version}`);
    return { text: whole.toString(), digest };
  }

  async #get(path: string, headers: Record<string, string>, signal: AbortSignal): Promise<Response> {
    const { registry, repository } = this.#reference;
    const scheme = this.#access.isPlain ? 'http' : 'https';
    const url = `${scheme}://${registry}/v2/${repository}/${path}`;
    const first = await this.#fetch(url, headers, signal);
    if (first.status !== 401) return this.#checked(first, path);
    await first.body?.cancel();
    this.#authorization = await this.#authorize(first.headers.get('www-authenticate') ?? '', scheme, signal);
    return this.#checked(await this.#fetch(url, headers, signal), path);
  }

  /** Its head comes in time, or it fails with `timeout`; its body is as long under way as the signal lets it. */
  async #fetch(url: string, headers: Record<string, string>, signal: AbortSignal): Promise<Response> {
    const authorization = this.#authorization === undefined ? [] : [['authorization', this.#authorization] as const];
    const sent = { ...headers, ...Object.fromEntries(authorization) };
    try {
      // Where it leads elsewhere, as registries do for layers, what we are known by stays behind: either fetch sees to that.
      return await this.#inTime((limited) => this.#fetchFrom(new URL(url), { headers: sent, signal: limited }), signal);
    } catch (error) {
      signal.throwIfAborted();
      if (hasCode(error, 'denied', 'invalid', 'timeout')) throw error;
      const { code } = asFlynnError(error);
      const why = error instanceof Error && error.cause instanceof Error ? error.cause.message : messageOf(error);
      const message = `the registry ${this.#reference.registry} cannot be reached: ${why}`;
      throw new FlynnError(code === 'timeout' ? 'timeout' : 'unavailable', message, { cause: error });
    }
  }

  async #inTime<T>(work: (limited: AbortSignal) => Promise<T>, signal: AbortSignal): Promise<T> {
    const { answerMs } = this.#patience;
    const late = new AbortController();
    const message = `the registry ${this.#reference.registry} did not answer within ${answerMs / 1_000} s`;
    const timer = setTimeout(() => late.abort(new FlynnError('timeout', message)), answerMs);
    try {
      return await work(AbortSignal.any([signal, late.signal]));
    } finally {
      clearTimeout(timer);
    }
  }

  /** What to send along from now on: the login itself, or a token that is given out for it, or for nothing. */
  async #authorize(challenge: string, scheme: 'http' | 'https', signal: AbortSignal): Promise<string> {
    const { registry, repository } = this.#reference;
    const login = this.#access.logins[registry];
    const basic =
      login === undefined
        ? undefined
        : `Basic ${Buffer.from(`${login.username}:${login.password}`).toString('base64')}`;
    if (/^basic\b/i.test(challenge) && basic !== undefined) return basic;
    const { realm, service } = Object.fromEntries(
      [...challenge.matchAll(/(\w+)="([^"]*)"/g)].map(([, name = '', value = '']) => [name, value]),
    );
    if (!/^bearer\b/i.test(challenge) || realm === undefined || !URL.canParse(realm)) throw this.#denied();
    const url = new URL(realm);
    if (scheme === 'https' && url.protocol !== 'https:') throw this.#strange(`a realm without TLS: ${url.origin}`);
    url.searchParams.set('scope', `repository:${repository}:pull`);
    if (service !== undefined) url.searchParams.set('service', service);
    this.#authorization = basic;
    const told = await this.#inTime(async (limited) => {
      const response = await this.#fetch(url.href, {}, limited);
      if (!response.ok) throw this.#denied();
      return this.#textOf(response, 'a token');
    }, signal);
    const given = JSON.parse(told.text) as { token?: string; access_token?: string };
    const token = given.token ?? given.access_token;
    if (typeof token !== 'string') throw this.#strange('no token');
    return `Bearer ${token}`;
  }

  async #checked(response: Response, path: string): Promise<Response> {
    if (response.ok) return response;
    await response.body?.cancel();
    const { registry, repository } = this.#reference;
    switch (response.status) {
      case 401:
      case 403:
        throw this.#denied();
      case 404:
        throw new FlynnError('invalid', `the registry ${registry} has no ${repository}/${path.replace(/^\w+\//, '')}`);
      default:
        throw new FlynnError(
          response.status === 429 || response.status >= 500 ? 'unavailable' : 'invalid',
          `the registry ${registry} answered ${response.status} when asked for ${repository}/${path}`,
        );
    }
  }

  #denied(): FlynnError {
    const { registry, repository } = this.#reference;
    const login = this.#access.logins[registry];
    const [known, remedy] =
      login?.isOwn === true
        ? [
            'with the login that its runner has',
            `"docker login ${registry}" on the machine of that runner makes another`,
          ]
        : [
            login === undefined ? 'without a login' : 'with the login it was given',
            `"flynn registry login ${registry}" gives one, or --runner names a runner that has its own`,
          ];
    return new FlynnError(
      'denied',
      `the registry ${registry} does not give out ${repository} ${known}: ${remedy}, or there is no such image`,
    );
  }

  #strange(what: string): FlynnError {
    return new FlynnError('invalid', `the registry ${this.#reference.registry} answered ${what}`);
  }
}
