/** How a host asks to be let into a cluster: the token a person carries, and the one question any host answers. */
import { type X509Certificate, createHmac, timingSafeEqual } from 'node:crypto';
import { abortError } from '@flynn/kit/clock';
import { FlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import { defineRoute } from '@flynn/kit/routes';
import { fingerprintOf, isEndorsement } from '@flynn/kit/certificate';
import { eitherCommand } from '@flynn/kit/operator-commands';
import { shownChain } from '@flynn/kit/shown-chain';
import { z } from 'zod';
import { leaseSchema, siteSchema } from '../network/lease.ts';
import type { AuthoritySettings } from '../trust/authorities.ts';

/** Over TLS, on the host's address. */
export const joinPort = 1112;

/** What a joining host has to be to be of use to those that are there. From 2 on it reads what is sealed. */
export const joinVersion = 2;

export const hostIdSchema = z.string().regex(/^[a-z0-9]{1,32}$/, 'expected up to 32 lower-case letters and digits');

const answerSchema = z.object({
  /** What bootstrap made of the cluster, for bootstrap. */
  settings: z.unknown(),
  lease: leaseSchema,
  /** etcd's, for clients. */
  endpoints: z.array(z.string()).min(1),
  /** Other hosts, which have images. */
  peers: z.array(z.string()),
  /** The answering host's clock. */
  now: z.number(),
});
export type JoinAnswer = z.output<typeof answerSchema>;

export const joinRoute = defineRoute({
  method: 'POST',
  path: '/join',
  body: z.object({
    version: z.int(),
    secret: z.string(),
    hostId: hostIdSchema,
    /** Of the machine in its own network. */
    address: z.ipv4(),
    /** The private network that it is in, where the others do not reach that address. */
    site: siteSchema.optional(),
    /** Of a host that was left behind: what it has of the range. One that is new to the cluster knows of none. */
    subnet: z.cidrv4().optional(),
    /** A TCP port at which it can be reached already, if the others are to reach that address. */
    answersAt: z.int().min(1).max(65_535).optional(),
    /** Why the joining machine can have no WireGuard device, for people; absent where it can. */
    withoutWireguard: z.string().optional(),
    /** What the joining machine has of flynn; one that says nothing is taken as it is. */
    release: z.string().optional(),
  }),
  response: answerSchema,
  summary: 'Let a host into the cluster; the same host again gets the same answer',
  access: 'open',
});

const tokenSchema = z.object({
  /** Where hosts of the cluster are. */
  a: z.array(z.ipv4()).min(1),
  /** Fingerprint of the cluster's authority. */
  f: z.string().regex(/^[0-9a-f]{64}$/),
  /** What lets in, until it expires. */
  s: z.string().min(16),
});
/**
 * What tokens are signed with. An authority that was made anew is of whoever has its key: tokens of before it, and whoever knows
 * the join secret of before, let nobody in.
 */
export function passSecretOf({
  joinSecret,
  authority,
  authorityRound = 0,
}: AuthoritySettings & { joinSecret: string }): string {
  if (authorityRound === 0) return joinSecret;
  return createHmac('sha256', authority.privateKey).update(joinSecret).digest('base64url');
}

/** What a token carries of that secret: good until then, without anybody keeping a list. */
export function passUntil(secret: string, expiresAt: number): string {
  return `${expiresAt}.${createHmac('sha256', secret).update(String(expiresAt)).digest('base64url')}`;
}

export type PassVerdict = 'good' | 'expired' | 'wrong';

export function judgePass(pass: string, secret: string, now: number): PassVerdict {
  const expiresAt = Number(pass.split('.')[0]);
  if (!Number.isSafeInteger(expiresAt)) return 'wrong';
  const [given, right] = [Buffer.from(pass), Buffer.from(passUntil(secret, expiresAt))];
  if (given.length !== right.length || !timingSafeEqual(given, right)) return 'wrong';
  return expiresAt > now ? 'good' : 'expired';
}

export type JoinToken = { addresses: readonly string[]; fingerprint: string; secret: string };

export function formatToken({ addresses, fingerprint, secret }: JoinToken): string {
  return Buffer.from(JSON.stringify({ a: addresses, f: fingerprint, s: secret })).toString('base64url');
}

export function parseToken(text: string): JoinToken {
  try {
    const { a, f, s } = tokenSchema.parse(JSON.parse(Buffer.from(text.trim(), 'base64url').toString()));
    return { addresses: a, fingerprint: f, secret: s };
  } catch (error) {
    throw new FlynnError(
      'invalid',
      `this is no token to join with, or a part of it is missing: ${eitherCommand('token')} on a host of the cluster prints it`,
      { cause: error },
    );
  }
}

const askMs = 30_000;
/** Certificates count from an hour before they are made: a host further ahead would make what the others refuse. */
export const maxClockDifferenceMs = 30 * 60_000;

/** Without an address, the one from which the cluster's hosts are reached. The rest is as in `joinRoute`. */
export type JoiningHost = Readonly<{
  hostId: string;
  address?: string;
  site?: string;
  subnet?: string;
  answersAt?: number;
  withoutWireguard?: string | undefined;
  release?: string;
}>;

/**
 * Asks the hosts the token names, one after the other, until one answers. What refuses (a wrong secret, a taken id, a
 * clock that is far off, an address that the host there does not reach, no WireGuard where all is encrypted) is thrown at once;
 * `unavailable` names every host that could not be asked, or is not of the cluster.
 */
export async function askToJoin(
  token: JoinToken,
  host: JoiningHost,
  options: { signal: AbortSignal; port?: number; now?: () => number },
): Promise<JoinAnswer> {
  const { signal, port = joinPort, now = () => Date.now() } = options;
  return await atFirstHost(token, { signal, port }, async (address) => {
    const { authority, ownAddress } = await lookUp({ address, port, fingerprint: token.fingerprint, now }, signal);
    const name = `the host at ${address}`;
    await using client = new HttpClient({ baseUrl: `https://${address}:${port}`, ca: authority, name });
    const body = { version: joinVersion, secret: token.secret, address: ownAddress, ...host };
    const answer = await client.call(joinRoute, { body }, { signal, timeoutMs: askMs });
    if (Math.abs(answer.now - now()) > maxClockDifferenceMs) throw clockError(`${address} says`, answer.now, now());
    return answer;
  });
}

/**
 * Whether the authority that the token names was made anew in the place of this one (PEM), which has signed for it. Throws as
 * `askToJoin` does.
 */
export async function isSuccessor(
  token: JoinToken,
  former: string,
  options: { signal: AbortSignal; port?: number; now?: () => number },
): Promise<boolean> {
  const { signal, port = joinPort, now = () => Date.now() } = options;
  return await atFirstHost(token, { signal, port }, async (address) => {
    const { authority, shown } = await lookUp({ address, port, fingerprint: token.fingerprint, now }, signal);
    return shown.some((one) => isEndorsement(one, { authority, former }));
  });
}

async function atFirstHost<T>(
  token: JoinToken,
  { signal, port }: { signal: AbortSignal; port: number },
  ask: (address: string) => Promise<T>,
): Promise<T> {
  const failures: string[] = [];
  for (const address of token.addresses) {
    try {
      return await ask(address);
    } catch (error) {
      if (signal.aborted) throw abortError(signal);
      if (!isOfOneHost(error)) throw error;
      failures.push(`${address}: ${messageOf(error)}`);
    }
  }
  throw new FlynnError(
    'unavailable',
    `no host of the cluster could be asked:\n${failures.map((line) => `  ${line}`).join('\n')}\nAre they up, and is port ${port} open between the hosts?`,
  );
}

/** Another one may do better: this one is away, has no store at the moment, or is somebody else. */
function isOfOneHost(error: unknown): boolean {
  return !(error instanceof FlynnError) || hasCode(error, 'unavailable', 'timeout', 'unauthenticated', 'internal');
}

function clockError(whose: string, theirs: number, own: number): FlynnError {
  const [here, there] = [own, theirs].map((time) => new Date(time).toISOString());
  return new FlynnError(
    'conflict',
    `the clocks differ too much: ${whose} ${there}, this machine ${here}. Set both (timedatectl set-ntp true) and join again`,
  );
}

/**
 * The authority's certificate as the host there shows it, taken only if it is the one the token speaks of; all that it shows;
 * and this machine's own address on the way there.
 */
async function lookUp(
  host: { address: string; port: number; fingerprint: string; now: () => number },
  signal: AbortSignal,
): Promise<{ authority: string; shown: readonly X509Certificate[]; ownAddress: string }> {
  const { address, port, fingerprint, now } = host;
  const { chain, ownAddress } = await shownChain({ host: address, port }, signal);
  const [own] = chain;
  const authority = chain.at(-1)?.toString();
  if (own === undefined || authority === undefined || fingerprintOf(authority) !== fingerprint) {
    throw new FlynnError(
      'unauthenticated',
      `a host answers, but it is not of the cluster the token is for, or that has another authority by now: ${eitherCommand('token')} on a host of the cluster prints a new one`,
    );
  }
  if (Date.parse(own.validFrom) > now())
    throw clockError(`a certificate of ${address} is of`, Date.parse(own.validFrom), now());
  return { authority, shown: chain, ownAddress };
}
