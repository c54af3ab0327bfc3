/** Certificates from an authority that speaks ACME (RFC 8555). acme-client is known to this file only. */
import { generateKeyPairSync } from 'node:crypto';
import { Agent } from 'node:https';
import type acme from 'acme-client';
import { systemClock } from '@flynn/kit/clock';
import { FlynnError, asFlynnError, messageOf } from '@flynn/kit/errors';
import { backoffMs, raceAbort } from '@flynn/kit/retry';
import type { ChallengeType } from '../model.ts';
import type { AcmeSpec } from './resources.ts';

/** What the authority is going to look for to see that a name is ours. */
export type Proof = Readonly<{
  /** Without `*.`. */
  domain: string;
  token: string;
  /** http-01: the answer. dns-01: the record's value. */
  value: string;
  /** tls-alpn-01. PEM. */
  alpn?: Readonly<{ certificate: string; privateKey: string }>;
}>;

export type Order = Readonly<{
  domains: readonly string[];
  challenge: ChallengeType;
  /** Resolves when whoever looks sees all of them. */
  present: (proofs: readonly Proof[]) => Promise<void>;
  signal: AbortSignal;
}>;

/** Errors say what the authority said; `detail.retryAfterMs` how long it does not want to be asked again. */
export interface Authority {
  /** Idempotent: the account is its key's. Resolves with its address. */
  register(signal: AbortSignal): Promise<string>;
  /** PEM, the leaf first, with a key of its own. */
  order(order: Order): Promise<{ certificate: string; privateKey: string }>;
}

const requestMs = 30_000;
const proofMs = 120_000;
/** Whatever it says: a date further away than a Date can be is none. */
const longestRetryMs = 30 * 86_400_000;
/** RFC 8555 6.7. */
const forgotten = 'urn:ietf:params:acme:error:accountDoesNotExist';
/** Of an order that is being made. */
const polling = { backoffAttempts: 30, backoffMin: 250, backoffMax: 3_000 } as const;

type Library = typeof acme;
type Opened = Readonly<{ library: Library; client: acme.Client }>;

export function openAuthority(spec: AcmeSpec, accountUrl?: string): Authority {
  let opened: Promise<Opened> | undefined;
  const open = (): Promise<Opened> => (opened ??= openClient(spec, accountUrl));
  const register = async (): Promise<string> => {
    if (accountUrl !== undefined) return accountUrl;
    const { client } = await open();
    const contact = spec.contact.map((address) => `mailto:${address}`);
    await client.createAccount({ termsOfServiceAgreed: true, contact });
    return client.getAccountUrl();
  };
  return {
    register: (signal) => told(register(), signal),
    order: (order) =>
      told(
        open().then((one) => placeOrder(one, order)),
        order.signal,
      ),
  };
}

/** The library is loaded by who needs it: 15 MB, in controllers that mostly never do. */
async function openClient({ ca, binding, directoryUrl, privateKey }: AcmeSpec, accountUrl?: string): Promise<Opened> {
  const { default: library } = await import('acme-client');
  prepareRequests(library, ca);
  const client = new library.Client({
    directoryUrl,
    accountKey: privateKey,
    ...(accountUrl === undefined ? {} : { accountUrl }),
    ...(binding === undefined ? {} : { externalAccountBinding: { kid: binding.keyId, hmacKey: binding.secret } }),
    ...polling,
  });
  return { library, client };
}

async function placeOrder(
  { library, client }: Opened,
  { domains, challenge: type, present, signal }: Order,
): Promise<{ certificate: string; privateKey: string }> {
  const identifiers = domains.map((value) => ({ type: 'dns', value }));
  const order = await client.createOrder({ identifiers });
  const authorizations = await client.getAuthorizations(order);
  const open = authorizations.filter(({ status }) => status !== 'valid');
  const wanted = open.map((authorization) => ({ authorization, challenge: challengeOf(authorization, type) }));
  const proofs = await Promise.all(
    wanted.map(async ({ authorization, challenge }): Promise<Proof> => {
      const value = await client.getChallengeKeyAuthorization(challenge);
      const proof = { domain: authorization.identifier.value, token: challenge.token, value };
      return type === 'tls-alpn-01' ? { ...proof, alpn: await alpnOf(library, authorization, value) } : proof;
    }),
  );
  await present(proofs);
  await Promise.all(wanted.map(({ challenge }) => client.completeChallenge(challenge)));
  await untilProven(client, order, { type, signal });
  const privateKey = newKey();
  const [, csr] = await library.crypto.createCsr({ altNames: [...domains] }, privateKey);
  const finalized = await client.finalizeOrder(order, csr);
  return { certificate: await client.getCertificate(finalized), privateKey };
}

/**
 * The library's own waiting knows neither a signal nor this: a challenge that is pending again after it was looked at is
 * one that failed and that the authority leaves to us (RFC 8555 8.2).
 */
async function untilProven(
  client: acme.Client,
  order: acme.Order,
  { type, signal }: { type: ChallengeType; signal: AbortSignal },
): Promise<void> {
  const endMs = performance.now() + proofMs;
  for (let attempt = 0; ; attempt += 1) {
    const open = (await client.getAuthorizations(order)).filter(({ status }) => status !== 'valid');
    if (open.length === 0) return;
    for (const { identifier, status, challenges } of open) {
      const problem = challenges.find((challenge) => challenge.type === type);
      const reason = problem?.error === undefined ? undefined : detailOf(problem.error);
      const isLeftToUs = problem?.status === 'pending' && reason !== undefined;
      const isLate = performance.now() > endMs;
      if (status === 'pending' && !isLeftToUs && !isLate) continue;
      const why = reason ?? (isLate ? `the authority did not look within ${proofMs / 1_000} s` : `it is ${status}`);
      throw new FlynnError('unavailable', `${identifier.value} was not proven: ${why}`);
    }
    await systemClock.sleep(backoffMs(attempt, { minMs: 250, maxMs: 3_000 }), { signal });
  }
}

function detailOf(error: object): string {
  return 'detail' in error && typeof error.detail === 'string' ? error.detail : JSON.stringify(error);
}

function challengeOf(authorization: acme.Authorization, type: ChallengeType): acme.Authorization['challenges'][number] {
  const found = authorization.challenges.find((challenge) => challenge.type === type);
  if (found !== undefined) return found;
  const offered = authorization.challenges.map((challenge) => challenge.type).join(', ');
  throw new FlynnError(
    'invalid',
    `the authority does not take ${type} for ${authorization.identifier.value}, but ${offered}: set another challenge`,
  );
}

async function alpnOf(
  library: Library,
  authorization: acme.Authorization,
  value: string,
): Promise<NonNullable<Proof['alpn']>> {
  const [privateKey, certificate] = await library.crypto.createAlpnCertificate(authorization, value, newKey());
  return { certificate: certificate.toString(), privateKey: privateKey.toString() };
}

/** P-256, PEM. */
export function newKey(): string {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
}

/** The library has one HTTP client for all it does, which tries again by itself for minutes and loses why: that is our part. */
function prepareRequests({ axios }: Library, ca: string | undefined): void {
  Object.assign(axios.defaults, {
    timeout: requestMs,
    httpsAgent: new Agent(ca === undefined ? {} : { ca }),
    proxy: false,
  });
  axios.interceptors.response.clear();
  axios.interceptors.response.use(undefined, (error: RequestFailure) => {
    const { response } = error;
    if (response === undefined) {
      throw new FlynnError('unavailable', `the authority cannot be reached: ${messageOf(error)}`, { cause: error });
    }
    if (response.data?.type === forgotten) throw forgottenAccount(response.data.detail);
    if (response.status !== 429 && response.status !== 503) return response;
    const said = response.data?.detail ?? `it answered ${response.status}`;
    const retryAfterMs = retryAfterOf(response.headers['retry-after'], Date.now());
    throw new FlynnError('exhausted', `the authority wants to be asked later: ${said}`, {
      detail: retryAfterMs === undefined ? {} : { retryAfterMs },
    });
  });
}

function forgottenAccount(said = 'it knows no such account'): FlynnError {
  return new FlynnError('not_found', `the authority said: ${said}`, { detail: { isAccountForgotten: true } });
}

/** Whether the authority does not know, or not any more, the account that it was asked with: its data was put back or made anew. */
export function isAccountForgotten(error: unknown): boolean {
  return asFlynnError(error).detail['isAccountForgotten'] === true;
}

type RequestFailure = Error & {
  response?: { status: number; headers: Record<string, unknown>; data?: { type?: string; detail?: string } };
};

/** Seconds, or a date (RFC 9110 10.2.3). */
export function retryAfterOf(text: unknown, nowMs: number): number | undefined {
  if (typeof text !== 'string') return undefined;
  const ms = /^\d+$/.test(text) ? Number(text) * 1_000 : Date.parse(text) - nowMs;
  return Number.isFinite(ms) && ms > 0 ? Math.min(ms, longestRetryMs) : undefined;
}

/** The library takes no signal: what it still does after the end is left behind. */
async function told<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  try {
    return await raceAbort(work, signal);
  } catch (error) {
    if (error instanceof FlynnError) throw error;
    throw new FlynnError('unavailable', `the authority said: ${messageOf(error)}`, { cause: error });
  }
}
