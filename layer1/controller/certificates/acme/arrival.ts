/** Do all routers show the authority what it is going to look for? */
import { once } from 'node:events';
import { request } from 'node:http';
import { text } from 'node:stream/consumers';
import { connect } from 'node:tls';
import { X509Certificate } from 'node:crypto';
import { messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { waitFor, withDeadline } from '@flynn/kit/retry';
import type { Challenge } from '../model.ts';

const attemptMs = 2_000;
const deadlineMs = 10_000;

export type RouterPlace = Readonly<{ address: string; httpPort: number; httpsPort: number }>;

/** A host where nobody listens has no router. One that does not show it in time is told of and waited for no longer. */
export async function untilShown(
  challenges: readonly Challenge[],
  routers: readonly RouterPlace[],
  { signal, log }: { signal: AbortSignal; log: Logger },
): Promise<void> {
  await Promise.all(
    routers.flatMap((router) =>
      challenges.map(async (challenge) => {
        const what = `the router at ${router.address} to show it`;
        try {
          await waitFor(() => isShown(challenge, router, signal), { what, deadlineMs, intervalMs: 50, signal });
        } catch (error) {
          signal.throwIfAborted();
          log.warn({ address: router.address, reason: messageOf(error) }, 'a router does not show a challenge');
        }
      }),
    ),
  );
}

async function isShown(challenge: Challenge, router: RouterPlace, signal: AbortSignal): Promise<boolean> {
  const limited = withDeadline(attemptMs, signal);
  try {
    if (challenge.type === 'http-01') return (await answerOf(challenge, router, limited)) === challenge.answer;
    return await showsCertificate(challenge, router, limited);
  } catch (error) {
    if (isRefused(error)) return true;
    throw error;
  }
}

async function answerOf(
  { token }: Extract<Challenge, { type: 'http-01' }>,
  { address, httpPort }: RouterPlace,
  signal: AbortSignal,
): Promise<string> {
  const path = `/.well-known/acme-challenge/${token}`;
  const asked = request({ host: address, port: httpPort, path, headers: { host: 'challenge' }, agent: false, signal });
  asked.end();
  const [response] = await once(asked, 'response');
  return text(response);
}

async function showsCertificate(
  { domain, certificate }: Extract<Challenge, { type: 'tls-alpn-01' }>,
  { address, httpsPort }: RouterPlace,
  signal: AbortSignal,
): Promise<boolean> {
  const socket = connect({
    host: address,
    port: httpsPort,
    servername: domain,
    ALPNProtocols: ['acme-tls/1'],
    rejectUnauthorized: false,
  });
  try {
    await once(socket, 'secureConnect', { signal });
    return socket.getPeerX509Certificate()?.fingerprint256 === new X509Certificate(certificate).fingerprint256;
  } finally {
    socket.destroy();
  }
}

function isRefused(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ECONNREFUSED';
}
