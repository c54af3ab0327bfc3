/** A small provider of identities: discovery, keys, authorization code with PKCE, signed tokens. For tests. */
import { createHash, createSign, generateKeyPairSync } from 'node:crypto';
import type { KeyObject } from 'node:crypto';
import { createServer } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { newSecret } from '@flynn/kit/secrets';

type Claims = Record<string, unknown>;
type Pending = { challenge: string; nonce: string; redirect: string };

export class OidcProvider implements AsyncDisposable {
  readonly clientId = 'flynn-cli';
  readonly accessToken = newSecret(16);
  /** Who is logged in at the provider. */
  claims: Claims = { sub: 'subject-1', email: 'ann@example.com', email_verified: true, groups: [] };
  /** Whether it tells address, name and groups only to who asks with the access token, as the standard has it. */
  isTerse = false;
  /** Whether it knows the client as one that has a secret. */
  isConfidential = false;
  /** Whether it answers nothing but 503. */
  isAway = false;
  /** How often its keys were asked for. */
  keyRequests = 0;
  /** How often anything was. */
  requests = 0;
  readonly #server = createServer((request, response) => void this.#answer(request, response));
  readonly #codes = new Map<string, Pending>();
  /** That it names still, and signs with no more. */
  readonly #former: { kid: string; publicKey: KeyObject }[] = [];
  #key: { kid: string; privateKey: KeyObject; publicKey: KeyObject } = newKey();
  #issuer = '';

  static async start(): Promise<OidcProvider> {
    const provider = new OidcProvider();
    provider.#server.listen(0, '127.0.0.1');
    await once(provider.#server, 'listening');
    const address = provider.#server.address();
    provider.#issuer = `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`;
    return provider;
  }

  get issuer(): string {
    return this.#issuer;
  }

  /** From now on it signs with another key, and names no other, or the former one too. */
  rotate({ keepsFormer = false } = {}): void {
    if (keepsFormer) this.#former.push(this.#key);
    this.#key = newKey();
  }

  /** A token, good unless `claims` or `header` say otherwise. */
  sign(claims: Claims, header: Claims = {}): string {
    const now = Math.floor(Date.now() / 1_000);
    const person = this.isTerse ? { sub: this.claims['sub'] } : this.claims;
    const whole = { iss: this.#issuer, aud: this.clientId, iat: now, exp: now + 300, ...person, ...claims };
    const encode = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');
    const signed = `${encode({ alg: 'RS256', kid: this.#key.kid, ...header })}.${encode(whole)}`;
    return `${signed}.${createSign('sha256').update(signed).sign(this.#key.privateKey).toString('base64url')}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', this.#issuer);
    const json = (status: number, value: unknown): void => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
    };
    this.requests += 1;
    if (this.isAway) return json(503, {});
    if (url.pathname === '/.well-known/openid-configuration') {
      return json(200, {
        issuer: this.#issuer,
        jwks_uri: `${this.#issuer}/keys`,
        authorization_endpoint: `${this.#issuer}/authorize`,
        token_endpoint: `${this.#issuer}/token`,
        userinfo_endpoint: `${this.#issuer}/userinfo`,
      });
    }
    if (url.pathname === '/userinfo') {
      const isGood = request.headers.authorization === `Bearer ${this.accessToken}`;
      return isGood ? json(200, this.claims) : json(401, { error: 'invalid_token' });
    }
    if (url.pathname === '/keys') {
      this.keyRequests += 1;
      return json(200, {
        keys: [this.#key, ...this.#former].map(({ kid, publicKey }) =>
          Object.assign(publicKey.export({ format: 'jwk' }), { kid, use: 'sig' }),
        ),
      });
    }
    if (url.pathname === '/authorize') return this.#authorize(url.searchParams, response);
    if (url.pathname !== '/token') return json(404, {});
    const form = new URLSearchParams(await text(request));
    if (this.isConfidential) {
      return json(401, { error: 'invalid_client', error_description: 'client authentication failed' });
    }
    const code = form.get('code') ?? '';
    const pending = this.#codes.get(code);
    this.#codes.delete(code);
    const challenge = createHash('sha256')
      .update(form.get('code_verifier') ?? '')
      .digest('base64url');
    const isGood =
      pending?.challenge === challenge &&
      pending.redirect === form.get('redirect_uri') &&
      form.get('client_id') === this.clientId;
    if (!isGood) return json(400, { error: 'invalid_grant' });
    json(200, { token_type: 'Bearer', access_token: this.accessToken, id_token: this.sign({ nonce: pending.nonce }) });
  }

  #authorize(query: URLSearchParams, response: ServerResponse): void {
    const redirect = query.get('redirect_uri') ?? '';
    const code = newSecret(8);
    this.#codes.set(code, { challenge: query.get('code_challenge') ?? '', nonce: query.get('nonce') ?? '', redirect });
    const back = new URL(redirect);
    back.searchParams.set('code', code);
    back.searchParams.set('state', query.get('state') ?? '');
    response.writeHead(302, { location: back.href }).end();
  }
}

function newKey(): { kid: string; privateKey: KeyObject; publicKey: KeyObject } {
  return { kid: newSecret(6), ...generateKeyPairSync('rsa', { modulusLength: 2_048 }) };
}
