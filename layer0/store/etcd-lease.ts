/** Keeping an etcd lease alive, and knowing in time that it was lost. */
import { pause } from '@flynn/kit/clock';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import type { EtcdMembers, Member } from './etcd-members.ts';
import type { Renewals } from './etcd-renewals.ts';
import { askInTurn } from './etcd-turns.ts';
import type { Pace } from './etcd-turns.ts';
import type { Lease } from './store.ts';

export type LeaseRequest = {
  members: EtcdMembers;
  renewals: Renewals;
  id: string;
  ttlSeconds: number;
  /** performance.now() from just before the grant was sent. */
  grantedMs: number;
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

/**
 * A renewal may be sent to a leader that has just stopped, or to a follower that waits for it, until another leads: an
 * election takes one to two seconds, on a busy machine four. Of the shortest TTL that guards anything (a host's, 7 s, whose
 * fence falls 2 s before its end) that leaves little: renewals are frequent, and when one is not answered all members are asked
 * in turn, so fast that the first that can answer is asked at once.
 */
export function renewalPace(ttlMs: number): Required<Pace> & { everyMs: number; giveUpMs: number } {
  return { everyMs: ttlMs / 7, stepMs: ttlMs / 28, maxPauseMs: ttlMs / 28, silentMs: ttlMs / 6, giveUpMs: ttlMs / 3 };
}

async function keepAlive(
  request: LeaseRequest,
  term: { expiresAtMs: number },
  ended: AbortSignal,
): Promise<'lost' | 'ended'> {
  const { id, members, renewals, log } = request;
  const ttlMs = request.ttlSeconds * 1000;
  const { everyMs, giveUpMs, ...pace } = renewalPace(ttlMs);
  const renewal = async (member: Member) => {
    const sentMs = performance.now();
    // Its end may be reached between a look at the clock and the next.
    const limitMs = Math.max(0, Math.min(giveUpMs, term.expiresAtMs - sentMs));
    return { sentMs, outcome: await renewals.renew(member.client, id, { limitMs }) };
  };
  for (;;) {
    const leftMs = term.expiresAtMs - performance.now();
    if (leftMs <= 0) return 'lost';
    await pause(Math.min(everyMs, leftMs), ended);
    if (ended.aborted) return 'ended';
    try {
      const { sentMs, outcome } = await askInTurn({
        members,
        what: `renewing lease ${id}`,
        ask: renewal,
        untilMs: term.expiresAtMs,
        pace,
        canRepeat: () => true,
        signal: ended,
      });
      if (outcome === 'gone') return 'lost';
      term.expiresAtMs = sentMs + ttlMs;
    } catch (error) {
      if (ended.aborted) return 'ended';
      log.debug({ err: error, lease: id }, 'the lease could not be renewed in time');
    }
  }
}
