/** Keeping an etcd lease alive, and knowing in time that it was lost. */
import { systemClock } from '@flynn/kit/clock';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { raceAbort, withDeadline } from '@flynn/kit/retry';
import type { EtcdMembers } from './etcd-members.ts';
import { translateError } from './etcd-wire.ts';
import type { Lease } from './store.ts';

export type LeaseRequest = {
  members: EtcdMembers;
  id: string;
  ttlSeconds: number;
  /** performance.now() from just before the grant was sent. */
  grantedMs: number;
  timeoutMs: number;
  closing: AbortSignal;
  log: Logger;
  revoke: () => Promise<void>;
};

/**
 * `lost` fires when etcd says the lease is gone, or a TTL after the last renewal that etcd answered was sent: then it has
 * expired unless etcd was down meanwhile, and its holder must not count on it either way.
 */
export function openLease(request: LeaseRequest): Lease {
  const { id, ttlSeconds, closing } = request;
  const lost = new AbortController();
  const released = new AbortController();
  const ended = AbortSignal.any([released.signal, closing]);
  const term = { expiresAtMs: request.grantedMs + ttlSeconds * 1000 };
  // Ends with the lease, by itself: `released`, `closing` or `lost`.
  void keepAlive(request, term, ended).then((outcome) => {
    if (outcome === 'lost')
      lost.abort(new FlynnError('unavailable', `lease ${id} expired: it could not be kept alive`));
  });
  const revoke = async () => {
    released.abort();
    try {
      await request.revoke();
    } catch (error) {
      // It is gone, which is what was asked for.
      if (!hasCode(error, 'not_found')) throw error;
    }
  };
  return {
    id,
    ttlSeconds,
    lost: lost.signal,
    get expiresAtMs() {
      return term.expiresAtMs;
    },
    revoke,
    async [Symbol.asyncDispose]() {
      if (released.signal.aborted) return;
      try {
        await revoke();
      } catch (error) {
        // Nobody keeps it alive any more: etcd ends it within its TTL.
        request.log.debug({ err: error, lease: id }, 'the lease could not be revoked and is left to expire');
      }
    },
  };
}

const renewalsPerTtl = 4;

async function keepAlive(
  request: LeaseRequest,
  term: { expiresAtMs: number },
  ended: AbortSignal,
): Promise<'lost' | 'ended'> {
  const { id, ttlSeconds, log } = request;
  const ttlMs = ttlSeconds * 1000;
  let pauseMs = ttlMs / renewalsPerTtl;
  let failures = 0;
  while (!ended.aborted) {
    const leftMs = term.expiresAtMs - performance.now();
    if (leftMs <= 0) return 'lost';
    await sleep(Math.min(pauseMs, leftMs), ended);
    if (ended.aborted) break;
    const sentMs = performance.now();
    // Short at first: a member that hangs must cost its holder less than half of the TTL. Longer when several do not answer.
    const shareMs = failures === 0 ? ttlMs / 6 : ttlMs / 3;
    const limitMs = Math.min(request.timeoutMs, shareMs, term.expiresAtMs - sentMs);
    if (limitMs <= 0) return 'lost';
    try {
      if ((await renew(request, limitMs, ended)) === 'gone') return 'lost';
      term.expiresAtMs = sentMs + ttlMs;
      pauseMs = ttlMs / renewalsPerTtl;
      failures = 0;
    } catch (error) {
      if (ended.aborted) break;
      log.debug({ err: error, lease: id }, 'renewing the lease failed, trying again');
      failures += 1;
      pauseMs = Math.min(500, ttlMs / 10);
    }
  }
  return 'ended';
}

/** One renewal on a stream of its own: it may go to another member than the last, and nothing is left over. */
async function renew(request: LeaseRequest, limitMs: number, ended: AbortSignal): Promise<'renewed' | 'gone'> {
  const { members, id } = request;
  const member = members.current;
  const answer = Promise.withResolvers<'renewed' | 'gone'>();
  // Whoever waits below may have left by its deadline.
  answer.promise.catch(() => undefined);
  const limited = withDeadline(Math.ceil(limitMs), ended);
  const stream = await raceAbort(
    member.client.leaseClient.leaseKeepAlive({ deadline: new Date(Date.now() + limitMs) }),
    limited,
  );
  try {
    stream.on('data', (response) => answer.resolve(Number(response.TTL) > 0 ? 'renewed' : 'gone'));
    stream.on('error', (error) => answer.reject(translateError(error, `renewing lease ${id}`)));
    stream.on('end', () => answer.reject(new FlynnError('unavailable', `etcd ended the renewal of lease ${id}`)));
    stream.write({ ID: id });
    const outcome = await raceAbort(answer.promise, limited);
    // Its end is the server's to answer: cancelling would be quicker, but costs an error with its stack each time.
    stream.end();
    return outcome;
  } catch (error) {
    if (!ended.aborted) members.failed(member);
    stream.cancel();
    throw error;
  }
}

async function sleep(ms: number, signal: AbortSignal): Promise<void> {
  await systemClock.sleep(ms, { signal }).catch((error: unknown) => {
    if (!signal.aborted) throw error;
  });
}
