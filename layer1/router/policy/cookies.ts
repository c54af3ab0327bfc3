/**
 * The router's own cookies: who answered a client, and which release it belongs to. All routers make the same ones, of the
 * cluster's key. A client can neither make one up nor read an address out of it.
 */
import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';

const backendCookie = '_flynn_backend';
const releaseCookie = '_flynn_release';

/** Of clients that were here lately: signing costs more than all else that is done for a request. */
const maxPointValues = 8_192;

/** As they are made. */
const pointShape = /^[\da-f]{8}\.[\w-]{22}$/;
/** Routes below each other on one host may each have set one. Whoever sends more of them only has work done. */
const maxPointsTried = 8;

type Named = { readonly service: string; readonly address: string };

export class Cookies {
  readonly #key: Buffer;
  readonly #pointValues = new Map<string, string>();
  readonly #tokens = new WeakMap<Named, string>();
  /** Of each list of backends, which is never changed but replaced. */
  readonly #byToken = new WeakMap<readonly Named[], ReadonlyMap<string, Named>>();

  constructor(clusterKey: string) {
    this.#key = Buffer.from(hkdfSync('sha256', clusterKey, '', 'flynn router cookies', 32));
  }

  /** The backend that this client's cookie names, if it is still there. */
  backendOf<B extends Named>(cookies: string | undefined, backends: readonly B[]): B | undefined {
    if (cookies === undefined || !cookies.includes(backendCookie)) return undefined;
    // Routes below other paths of the same host may have set one of the same name.
    for (const token of valuesOf(cookies, backendCookie)) {
      const named = this.#tokensOf(backends).get(token);
      const backend = named === undefined ? undefined : backends.find((each) => each === named);
      if (backend !== undefined) return backend;
    }
    return undefined;
  }

  forBackend(backend: Named, scope: CookieScope): string {
    return setCookie(backendCookie, this.#tokenOf(backend), scope);
  }

  /** The point between 0 and 1 that says which release's share a client lies in. */
  pointOf(cookies: string | undefined): number | undefined {
    if (cookies === undefined || !cookies.includes(releaseCookie)) return undefined;
    let tried = 0;
    for (const value of valuesOf(cookies, releaseCookie)) {
      if (!pointShape.test(value)) continue;
      if (this.#isPointValue(value)) return Number.parseInt(value.slice(0, 8), 16) / 2 ** 32;
      tried += 1;
      if (tried === maxPointsTried) break;
    }
    return undefined;
  }

  forPoint(point: number, scope: CookieScope): string {
    const number = Math.floor(point * 2 ** 32)
      .toString(16)
      .padStart(8, '0');
    const value = this.#pointValue(number);
    this.#keepPointValue(number, value);
    return setCookie(releaseCookie, value, scope);
  }

  /** Of that shape. What clients make up is not kept: it would push out what they were given. */
  #isPointValue(value: string): boolean {
    const number = value.slice(0, 8);
    const expected = this.#pointValue(number);
    if (!timingSafeEqual(Buffer.from(value), Buffer.from(expected))) return false;
    this.#keepPointValue(number, expected);
    return true;
  }

  #pointValue(number: string): string {
    return this.#pointValues.get(number) ?? `${number}.${this.#sign(`release ${number}`)}`;
  }

  #keepPointValue(number: string, value: string): void {
    if (this.#pointValues.has(number)) return;
    if (this.#pointValues.size >= maxPointValues) this.#pointValues.clear();
    this.#pointValues.set(number, value);
  }

  #tokensOf(backends: readonly Named[]): ReadonlyMap<string, Named> {
    let tokens = this.#byToken.get(backends);
    if (tokens === undefined) {
      tokens = new Map(backends.map((backend) => [this.#tokenOf(backend), backend]));
      this.#byToken.set(backends, tokens);
    }
    return tokens;
  }

  #tokenOf(backend: Named): string {
    let token = this.#tokens.get(backend);
    if (token === undefined) {
      token = this.#sign(`backend ${backend.service} ${backend.address}`);
      this.#tokens.set(backend, token);
    }
    return token;
  }

  #sign(text: string): string {
    return createHmac('sha256', this.#key).update(text).digest('base64url').slice(0, 22);
  }
}

export type CookieScope = { readonly path: string; readonly isTls: boolean };

function setCookie(name: string, value: string, { path, isTls }: CookieScope): string {
  return `${name}=${value}; Path=${path}; HttpOnly; SameSite=Lax${isTls ? '; Secure' : ''}`;
}

function* valuesOf(cookies: string, name: string): Generator<string> {
  for (const pair of cookies.split(';')) {
    const equals = pair.indexOf('=');
    if (equals > 0 && pair.slice(0, equals).trim() === name) yield pair.slice(equals + 1).trim();
  }
}

/** Where between 0 and 1 a client lies before it has a cookie: FNV-1a with the last steps of murmur3, the same everywhere. */
export function pointFor(client: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < client.length; i += 1) hash = Math.imul(hash ^ client.charCodeAt(i), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return ((hash ^ (hash >>> 16)) >>> 0) / 2 ** 32;
}
