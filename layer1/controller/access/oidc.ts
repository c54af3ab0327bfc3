/**
 * Is this identity token a good one (OpenID Connect Core 1.0, section 3.1.3.7), and whose? Keys come from the provider's
 * own documents; one that is not known yet is looked for once more, since providers change them.
 */
import { createPublicKey, verify } from 'node:crypto';
import type { JsonWebKey, KeyObject } from 'node:crypto';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { withDeadline } from '@flynn/kit/retry';
import { z } from 'zod';
import { type OidcIdentity, type Person, identityOf, isWhole, personSchema } from './oidc-claims.ts';

export type OidcSettings = Readonly<{
  /** As the provider writes it, to the letter. */
  issuer: string;
  clientId: string;
  /** Addresses of these domains only; none: whoever the provider knows. */
  domains: readonly string[];
  /** The claim that lists somebody's groups; empty where teams are not the provider's to fill. */
  groupsClaim: string;
  /** What is asked for at the provider, separated by spaces: `openid` among it. */
  scopes: string;
  /** Whether logins of clients are taken that do not say for which cluster they are. Default: no. */
  takesUnbound?: boolean;
}>;

const fetchMs = 10_000;
const configMs = 3_600_000;
/** Somebody who sends made-up key ids must not make us ask the provider all the time. */
const refetchMs = 10_000;
const skewMs = 60_000;
/** A token is for logging in with now. */
const maxAgeMs = 10 * 60_000;

const configSchema = z.looseObject({ issuer: z.string(), jwks_uri: z.url(), userinfo_endpoint: z.url().optional() });
const keySchema = z.looseObject({ kty: z.string(), kid: z.string().optional(), use: z.string().optional() });
const keysSchema = z.looseObject({ keys: z.array(keySchema) });
const headerSchema = z.looseObject({ alg: z.string(), kid: z.string().nullish() });
const claimsSchema = personSchema.extend({
  iss: z.string(),
  aud: z.union([z.string(), z.array(z.string())]),
  azp: z.string().nullish(),
  exp: z.number(),
  iat: z.number(),
  nbf: z.number().nullish(),
  nonce: z.string().nullish(),
});

/** Signatures that are taken, with the kind of key each is made with. `none` is not one. */
const algorithms: Readonly<Record<string, { kty: string; hash: string | null }>> = {
  RS256: { kty: 'RSA', hash: 'sha256' },
  ES256: { kty: 'EC', hash: 'sha256' },
  EdDSA: { kty: 'OKP', hash: null },
};

type Keys = ReadonlyMap<string, { kty: string; key: KeyObject }>;
type Documents = { keys: Keys; userInfoUrl: string | undefined };

export class OidcVerifier {
  readonly #settings: OidcSettings;
  readonly #now: () => number;
  #documents: ({ at: number } & Documents) | undefined;

  constructor(settings: OidcSettings, now: () => number) {
    this.#settings = settings;
    this.#now = now;
  }

  /**
   * Throws `unauthenticated` saying what is wrong with it, `unavailable` when the provider does not answer. With an access
   * token, what the identity token leaves out is asked for: by the standard (section 5.4) address and name are there.
   */
  async identify(token: string, nonce: string, signal: AbortSignal, accessToken?: string): Promise<OidcIdentity> {
    const [head = '', body = '', signature = '', ...more] = token.split('.');
    if (signature === '' || more.length > 0) throw refusal('it is no signed token');
    const header = parsePart(headerSchema, head);
    const algorithm = Object.hasOwn(algorithms, header.alg) ? algorithms[header.alg] : undefined;
    if (algorithm === undefined) throw refusal(`it is signed with "${header.alg}", which is not taken`);
    const found = await this.#keyOf(header.kid ?? '', signal);
    if (found === undefined) throw refusal('it is signed with a key that the provider does not name');
    if (found.kty !== algorithm.kty) throw refusal(`its key is not one for ${header.alg}`);
    const isGood = verify(
      algorithm.hash,
      Buffer.from(`${head}.${body}`),
      { key: found.key, ...(algorithm.kty === 'EC' ? { dsaEncoding: 'ieee-p1363' as const } : {}) },
      Buffer.from(signature, 'base64url'),
    );
    if (!isGood) throw refusal('its signature is wrong');
    const claims = parsePart(claimsSchema, body);
    this.#check(claims, nonce);
    const isEnough = accessToken === undefined || isWhole(claims, this.#settings);
    const info = isEnough ? undefined : await this.#userInfo(claims.sub, accessToken, signal);
    return identityOf(claims, info, this.#settings);
  }

  #check(claims: z.output<typeof claimsSchema>, nonce: string): void {
    const { issuer, clientId } = this.#settings;
    const nowMs = this.#now();
    const audience = [claims.aud].flat();
    if (claims.iss !== issuer) throw refusal(`it is of another issuer, ${claims.iss}`);
    if (!audience.includes(clientId)) throw refusal('it was made for another client');
    const givenTo = claims.azp ?? (audience.length > 1 ? undefined : clientId);
    if (givenTo !== clientId) throw refusal('it was given to another client');
    if (claims.exp * 1_000 + skewMs <= nowMs) throw refusal('it has expired');
    if (claims.iat * 1_000 - skewMs > nowMs || (claims.nbf ?? 0) * 1_000 - skewMs > nowMs) {
      throw refusal('it is of the future: are the clocks right?');
    }
    if (claims.iat * 1_000 + maxAgeMs + skewMs < nowMs) throw refusal('it is too old to log in with');
    if (claims.nonce !== nonce) throw refusal('it is not the answer to this login');
  }

  async #keyOf(kid: string, signal: AbortSignal): Promise<{ kty: string; key: KeyObject } | undefined> {
    const known = this.#documents;
    const ageMs = known === undefined ? Infinity : this.#now() - known.at;
    const found = known?.keys.get(kid);
    if (found !== undefined && ageMs < configMs) return found;
    if (ageMs < refetchMs) return undefined;
    const documents = await this.#fetchDocuments(signal);
    this.#documents = { at: this.#now(), ...documents };
    return documents.keys.get(kid);
  }

  /** Section 5.3: whatever it says counts only if it is of the one that the identity token is of. */
  async #userInfo(subject: string, accessToken: string, signal: AbortSignal): Promise<Person | undefined> {
    const url = this.#documents?.userInfoUrl;
    if (url === undefined) return undefined;
    const person = await fetchJson(personSchema, url, signal, { authorization: `Bearer ${accessToken}` });
    if (person.sub !== subject) throw refusal('the access token with it is of somebody else');
    return person;
  }

  async #fetchDocuments(signal: AbortSignal): Promise<Documents> {
    const { issuer } = this.#settings;
    const config = await fetchJson(
      configSchema,
      `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`,
      signal,
    );
    if (config.issuer !== issuer) {
      throw new FlynnError(
        'unavailable',
        `the provider at ${issuer} calls itself ${config.issuer}: FLYNN_OIDC_ISSUER has to be that`,
      );
    }
    const { keys } = await fetchJson(keysSchema, config.jwks_uri, signal);
    const usable = keys.filter(({ use }) => use === undefined || use === 'sig');
    const known = usable.flatMap((jwk) => {
      const key = publicKeyOf(jwk);
      return key === undefined ? [] : [[jwk.kid ?? '', { kty: jwk.kty, key }] as const];
    });
    return { keys: new Map(known), userInfoUrl: config.userinfo_endpoint };
  }
}

/** Undefined for a kind of key that is not known here: it is not one of those that are taken. */
function publicKeyOf(jwk: JsonWebKey): KeyObject | undefined {
  try {
    return createPublicKey({ key: jwk, format: 'jwk' });
  } catch {
    return undefined;
  }
}

async function fetchJson<S extends z.ZodType>(
  schema: S,
  url: string,
  signal: AbortSignal,
  headers: Readonly<Record<string, string>> = {},
): Promise<z.output<S>> {
  try {
    const answer = await fetch(url, { headers, signal: withDeadline(fetchMs, signal), redirect: 'error' });
    if (!answer.ok) throw new FlynnError('unavailable', `it answered with status ${answer.status}`);
    return schema.parse(await answer.json());
  } catch (error) {
    throw new FlynnError('unavailable', `the provider of identities cannot be asked (${url}): ${messageOf(error)}`, {
      cause: error,
    });
  }
}

function parsePart<S extends z.ZodType>(schema: S, part: string): z.output<S> {
  try {
    return schema.parse(JSON.parse(Buffer.from(part, 'base64url').toString()));
  } catch (error) {
    throw refusal('it cannot be read', error);
  }
}

function refusal(why: string, cause?: unknown): FlynnError {
  return new FlynnError('unauthenticated', `the identity token is not good: ${why}`, { cause });
}
