/**
 * Is this identity token a good one (OpenID Connect Core 1.0, section 3.1.3.7), and whose? Keys come from the provider's
 * own documents; one that is not known yet is looked for once more, since providers change them.
 */
import { verify } from 'node:crypto';
import { FlynnError } from '@flynn/kit/errors';
import { z } from 'zod';
import { type OidcIdentity, type Person, identityOf, isWhole, personSchema } from './oidc-claims.ts';
import { ProviderDocuments, fetchJson } from './oidc-documents.ts';

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

const skewMs = 60_000;
/** A token is for logging in with now. */
const maxAgeMs = 10 * 60_000;

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

export class OidcVerifier {
  readonly #settings: OidcSettings;
  readonly #now: () => number;
  readonly #documents: ProviderDocuments;

  /** `steadyNow` is one that nobody sets: by it documents get old. */
  constructor(settings: OidcSettings, now: () => number, steadyNow: () => number = () => performance.now()) {
    this.#settings = settings;
    this.#now = now;
    this.#documents = new ProviderDocuments(settings.issuer, steadyNow);
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
    const kid = header.kid ?? undefined;
    const found = await this.#documents.keyFor({ kid, kty: algorithm.kty }, signal);
    if (found === undefined && kid === undefined)
      throw refusal('it does not say which of the provider’s keys is its own');
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

  /** Section 5.3: whatever it says counts only if it is of the one that the identity token is of. */
  async #userInfo(subject: string, accessToken: string, signal: AbortSignal): Promise<Person | undefined> {
    const url = this.#documents.userInfoUrl;
    if (url === undefined) return undefined;
    const person = await fetchJson(personSchema, url, signal, { authorization: `Bearer ${accessToken}` });
    if (person.sub !== subject) throw refusal('the access token with it is of somebody else');
    return person;
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
