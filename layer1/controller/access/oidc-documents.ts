/** What the provider of identities publishes: the keys it signs with, and where it tells of people. */
import { createPublicKey } from 'node:crypto';
import type { JsonWebKey, KeyObject } from 'node:crypto';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { raceAbort, withDeadline } from '@flynn/kit/retry';
import { SharedWork } from '@flynn/kit/shared-work';
import { z } from 'zod';

const fetchMs = 10_000;
const freshMs = 3_600_000;
/** While the provider cannot be asked, what it said is believed for so long: who has a token of it now can log in. */
const staleMs = 86_400_000;
/** Somebody who sends made-up key ids must not make us ask the provider all the time, least of all while it is in trouble. */
const retryMs = 10_000;

const configSchema = z.looseObject({ issuer: z.string(), jwks_uri: z.url(), userinfo_endpoint: z.url().nullish() });
const keySchema = z.looseObject({ kty: z.string(), kid: z.string().optional(), use: z.string().optional() });
const keysSchema = z.looseObject({ keys: z.array(keySchema) });

export type ProviderKey = Readonly<{ kid: string | undefined; kty: string; key: KeyObject }>;
type Documents = Readonly<{ keys: readonly ProviderKey[]; userInfoUrl: string | undefined }>;
type Wanted = Readonly<{ kid: string | undefined; kty: string }>;

/**
 * INVARIANTS. However many ask, the provider is asked once at a time, and not again within `retryMs` of the end of that, whether it
 * answered or not. Ages are by a clock that nobody sets.
 */
export class ProviderDocuments {
  readonly #issuer: string;
  readonly #steadyNow: () => number;
  readonly #work = new SharedWork<void>();
  #known: ({ at: number } & Documents) | undefined;
  /** How the last try ended, and when. */
  #tried: { at: number; failure?: unknown } = { at: -Infinity };

  constructor(issuer: string, steadyNow: () => number) {
    this.#issuer = issuer;
    this.#steadyNow = steadyNow;
  }

  /** Known once a key was asked for. */
  get userInfoUrl(): string | undefined {
    return this.#known?.userInfoUrl;
  }

  /** Undefined of one that the provider does not name. `unavailable` when it has to be asked and does not answer. */
  async keyFor(wanted: Wanted, signal: AbortSignal): Promise<ProviderKey | undefined> {
    const known = this.#known;
    const ageMs = known === undefined ? Infinity : this.#steadyNow() - known.at;
    const found = known === undefined ? undefined : pick(known.keys, wanted);
    if (found !== undefined && ageMs < freshMs) return found;
    if (this.#steadyNow() - this.#tried.at >= retryMs) {
      // Whoever leaves does not end it for the others, nor for who comes next.
      await raceAbort(
        this.#work.run(this.#issuer, async () => this.#read()),
        signal,
      );
    }
    const { failure } = this.#tried;
    if (failure === undefined) return pick(this.#known?.keys ?? [], wanted);
    if (found !== undefined && ageMs < staleMs) return found;
    throw failure;
  }

  /** Never fails: how it ended is noted. */
  async #read(): Promise<void> {
    try {
      const documents = await readDocuments(this.#issuer, withDeadline(2 * fetchMs));
      const at = this.#steadyNow();
      this.#known = { at, ...documents };
      this.#tried = { at };
    } catch (failure) {
      this.#tried = { at: this.#steadyNow(), failure };
    }
  }
}

/** By its id; where the token names none (section 10.1), the only one of that kind. */
function pick(keys: readonly ProviderKey[], { kid, kty }: Wanted): ProviderKey | undefined {
  const ofKind = keys.filter((key) => key.kty === kty);
  if (kid === undefined) return ofKind.length === 1 ? ofKind[0] : undefined;
  return [...ofKind, ...keys].find((key) => key.kid === kid);
}

async function readDocuments(issuer: string, signal: AbortSignal): Promise<Documents> {
  const url = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
  const config = await fetchJson(configSchema, url, signal);
  if (config.issuer !== issuer) {
    throw new FlynnError(
      'unavailable',
      `the provider at ${issuer} calls itself ${config.issuer}: FLYNN_OIDC_ISSUER has to be that`,
    );
  }
  const { keys } = await fetchJson(keysSchema, config.jwks_uri, signal);
  const usable = keys.filter(({ use }) => use === undefined || use === 'sig');
  return {
    keys: usable.flatMap((jwk) => {
      const key = publicKeyOf(jwk);
      return key === undefined ? [] : [{ kid: jwk.kid, kty: jwk.kty, key }];
    }),
    userInfoUrl: config.userinfo_endpoint ?? undefined,
  };
}

/** Undefined for a kind of key that is not known here: it is not one of those that are taken. */
function publicKeyOf(jwk: JsonWebKey): KeyObject | undefined {
  try {
    return createPublicKey({ key: jwk, format: 'jwk' });
  } catch {
    return undefined;
  }
}

/** Throws `unavailable`, saying whether it did not answer, or not as the standard has it. */
export async function fetchJson<S extends z.ZodType>(
  schema: S,
  url: string,
  signal: AbortSignal,
  headers: Readonly<Record<string, string>> = {},
): Promise<z.output<S>> {
  let told: unknown;
  try {
    const answer = await fetch(url, { headers, signal: withDeadline(fetchMs, signal), redirect: 'error' });
    if (!answer.ok) throw new FlynnError('unavailable', `it answered with status ${answer.status}`);
    told = await answer.json();
  } catch (error) {
    throw new FlynnError('unavailable', `the provider of identities cannot be asked (${url}): ${messageOf(error)}`, {
      cause: error,
    });
  }
  const { data, error } = schema.safeParse(told);
  if (data !== undefined) return data;
  const why = error === undefined ? 'it is empty' : z.prettifyError(error);
  throw new FlynnError('unavailable', `what the provider of identities answered is not understood (${url}): ${why}`, {
    cause: error,
  });
}
