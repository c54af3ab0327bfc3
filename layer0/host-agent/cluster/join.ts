/** How a host asks to be let into a cluster: the token a person carries, and the one question any host answers. */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { connect } from 'node:tls';
import { abortError } from '@flynn/kit/clock';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import { withDeadline } from '@flynn/kit/retry';
import { defineRoute } from '@flynn/kit/routes';
import { fingerprintOf } from '@flynn/kit/certificate';
import { z } from 'zod';
import { leaseSchema } from '../network/lease.ts';

/** Over TLS, on the host's address. */
export const joinPort = 1112;

/** What a joining host has to be to be of use to those that are there. */
export const joinVersion = 1;

export const hostIdSchema = z.string().regex(/^[a-z0-9]{1,32}$/, 'expected up to 32 lower-case letters and digits');

const answerSchema = z.object({
  /** What bootstrap made of the cluster, for bootstrap. */
  settings: z.unknown(),
  lease: leaseSchema,
  /** etcd's, for clients. */
  endpoints: z.array(z.string()).min(1),
  /** Other hosts, which have images. */
  peers: z.array(z.string()),
});
export type JoinAnswer = z.output<typeof answerSchema>;

export const joinRoute = defineRoute({
  method: 'POST',
  path: '/join',
  body: z.object({ version: z.int(), secret: z.string(), hostId: hostIdSchema, address: z.ipv4() }),
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
/** What a token carries of the join secret: good until then, without anybody keeping a list. */
export function passUntil(joinSecret: string, expiresAt: number): string {
  return `${expiresAt}.${createHmac('sha256', joinSecret).update(String(expiresAt)).digest('base64url')}`;
}

export type PassVerdict = 'good' | 'expired' | 'wrong';

export function judgePass(pass: string, joinSecret: string, now: number): PassVerdict {
  const expiresAt = Number(pass.split('.')[0]);
  if (!Number.isSafeInteger(expiresAt)) return 'wrong';
  const [given, right] = [Buffer.from(pass), Buffer.from(passUntil(joinSecret, expiresAt))];
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
      'this is no token to join with, or a part of it is missing: "npm run up -- --token" on a host of the cluster prints it',
      { cause: error },
    );
  }
}

const reachMs = 5_000;
const askMs = 30_000;

/**
 * Asks the hosts the token names, one after the other, until one answers. What refuses (a wrong secret, a taken id) is
 * thrown at once; `unavailable` names every host that could not be reached; `denied` a host that is not of the cluster.
 */
export async function askToJoin(
  token: JoinToken,
  host: { hostId: string; address: string },
  options: { signal: AbortSignal; port?: number },
): Promise<JoinAnswer> {
  const { signal, port = joinPort } = options;
  const failures: string[] = [];
  for (const address of token.addresses) {
    let ca: string;
    try {
      ca = await authorityAt(address, port, token.fingerprint, signal);
    } catch (error) {
      if (signal.aborted) throw abortError(signal);
      failures.push(`${address}: ${messageOf(error)}`);
      continue;
    }
    await using client = new HttpClient({ baseUrl: `https://${address}:${port}`, ca, name: `the host at ${address}` });
    const body = { version: joinVersion, secret: token.secret, ...host };
    return await client.call(joinRoute, { body }, { signal, timeoutMs: askMs });
  }
  throw new FlynnError(
    'unavailable',
    `no host of the cluster could be asked:\n${failures.map((line) => `  ${line}`).join('\n')}\nAre they up, and is port ${port} open between the hosts?`,
  );
}

/** The authority's certificate as the host there shows it: taken only if it is the one the token speaks of. */
async function authorityAt(address: string, port: number, fingerprint: string, outer: AbortSignal): Promise<string> {
  const signal = withDeadline(reachMs, outer);
  const socket = connect({ host: address, port, rejectUnauthorized: false });
  const stop = (): void => void socket.destroy(new FlynnError('timeout', `no answer within ${reachMs} ms`));
  signal.addEventListener('abort', stop, { once: true });
  try {
    const connected = Promise.withResolvers<void>();
    socket.once('secureConnect', () => connected.resolve());
    socket.once('error', (error) => connected.reject(error));
    await connected.promise;
    let certificate = socket.getPeerX509Certificate();
    while (certificate?.issuerCertificate !== undefined && certificate.issuerCertificate !== certificate) {
      certificate = certificate.issuerCertificate;
    }
    const pem = certificate?.toString();
    if (pem !== undefined && fingerprintOf(pem) === fingerprint) return pem;
    throw new FlynnError('denied', 'a host answers, but it is not of the cluster the token is for');
  } finally {
    signal.removeEventListener('abort', stop);
    socket.destroy();
  }
}
