/** Reads from a registry, as the OCI distribution specification has it. Every answer to a digest is checked against it. */
import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import type { ReadableStream } from 'node:stream/web';
import { FlynnError, asFlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import { withDeadline } from '@flynn/kit/retry';
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

const headDeadlineMs = 30_000;
const layerDeadlineMs = 15 * 60_000;
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
  #authorization: string | undefined;

  constructor(reference: Reference, access: RegistryAccess, signal: AbortSignal) {
    this.#reference = reference;
    this.#access = access;
    this.#fetchFrom = access.isConfined ? confinedTo(reference.registry) : fetch;
    this.#signal = signal;
  }

  /** By tag or digest. */
  async manifest(version: string): Promise<{ text: string; digest: string }> {
    const response = await this.#get(`manifests/${version}`, { accept: manifestTypes }, headDeadlineMs);
    return this.#textOf(response, version);
  }

  async text(digest: string): Promise<string> {
    return (await this.#textOf(await this.#get(`blobs/${digest}`, {}, headDeadlineMs), digest)).text;
  }

  /** Not checked: whoever stores it does. */
  async blob(digest: string): Promise<Readable> {
    const { body } = await this.#get(`blobs/${digest}`, {}, layerDeadlineMs);
    if (body === null) throw this.#strange(`no bytes for ${digest}`);
    return Readable.fromWeb(body as ReadableStream<Uint8Array>);
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

  async #get(path: string, headers: Record<string, string>, deadlineMs: number): Promise<Response> {
    const { registry, repository } = this.#reference;
    const scheme = this.#access.isPlain ? 'http' : 'https';
    const url = `${scheme}://${registry}/v2/${repository}/${path}`;
    const first = await this.#fetch(url, headers, deadlineMs);
    if (first.status !== 401) return this.#checked(first, path);
    await first.body?.cancel();
    this.#authorization = await this.#authorize(first.headers.get('www-authenticate') ?? '', scheme);
    return this.#checked(await this.#fetch(url, headers, deadlineMs), path);
  }

  async #fetch(url: string, headers: Record<string, string>, deadlineMs: number): Promise<Response> {
    const authorization = this.#authorization === undefined ? [] : [['authorization', this.#authorization] as const];
    try {
      // Where it leads elsewhere, as registries do for layers, what we are known by stays behind: either fetch sees to that.
      return await this.#fetchFrom(new URL(url), {
        headers: { ...headers, ...Object.fromEntries(authorization) },
        signal: withDeadline(deadlineMs, this.#signal),
      });
    } catch (error) {
      this.#signal.throwIfAborted();
      if (hasCode(error, 'denied', 'invalid')) throw error;
      const { code } = asFlynnError(error);
      const why = error instanceof Error && error.cause instanceof Error ? error.cause.message : messageOf(error);
      const message = `the registry ${this.#reference.registry} cannot be reached: ${why}`;
      throw new FlynnError(code === 'timeout' ? 'timeout' : 'unavailable', message, { cause: error });
    }
  }

  /** What to send along from now on: the login itself, or a token that is given out for it, or for nothing. */
  async #authorize(challenge: string, scheme: 'http' | 'https'): Promise<string> {
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
    const response = await this.#fetch(url.href, {}, headDeadlineMs);
    if (!response.ok) throw this.#denied();
    const given = JSON.parse((await this.#textOf(response, 'a token')).text) as {
      token?: string;
      access_token?: string;
    };
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
