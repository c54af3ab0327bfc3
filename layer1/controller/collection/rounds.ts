/** A round of collection: releases, then artifacts, names and blobs; what keeps it from ending is told by `flynn status`. */
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { withDeadline } from '@flynn/kit/retry';
import { isUnreadable } from '@flynn/resource/record';
import type { Compare } from '@flynn/store/store';
import { collectBlobs } from './blob-collection.ts';
import type { BlobCollector } from './blob-collection.ts';
import { collectReleases } from './collection.ts';
import type { Deps } from '../deps.ts';
import { beginRound, readRounds, writeRounds } from './round-state.ts';
import type { RoundState } from './round-state.ts';

/** Of a round: one that takes longer is stuck, and told. */
const wholeMs = 30 * 60_000;

type Options = Readonly<{ signal: AbortSignal; epoch?: Compare }>;
type Collected = Readonly<{ releases: number; blobs: number; bytes: number; names: number }>;

/**
 * `clock is ahead`: nothing is collected by it (see beginRound). What fails is written down, and thrown; `timeout` after half an
 * hour. Not written down is that the signal aborts: nothing is wrong with the round then.
 */
export async function collectAll(
  deps: Deps,
  blobs: BlobCollector | undefined,
  { deadlineMs = wholeMs, ...options }: Options & { deadlineMs?: number },
): Promise<Collected | 'clock is ahead'> {
  const { store, log, now } = deps;
  const { signal } = options;
  const round = { ...options, signal: withDeadline(deadlineMs, signal) };
  const before = await readRounds(store, signal);
  let known = before;
  try {
    const usedMs = before.begunMs === undefined && blobs !== undefined ? await lastUse(blobs, round.signal) : undefined;
    const begun = beginRound(before, now(), usedMs);
    await writeRounds(store, begun, round);
    known = begun;
    if (begun.aheadMs !== undefined) {
      const last = before.begunMs === undefined ? undefined : iso(before.begunMs);
      log.warn({ at: iso(now()), last }, 'nothing is collected: the clock is ahead of the last collection by far');
      return 'clock is ahead';
    }
    const releases = await collectReleases(deps, round);
    const gone = blobs === undefined ? { blobs: 0, bytes: 0, names: 0 } : await collectBlobs(deps, blobs, round);
    const { failure, ...ended } = begun;
    if (failure !== undefined) await writeRounds(store, ended, round);
    return { releases, ...gone };
  } catch (error) {
    if (signal.aborted) throw error;
    const told = round.signal.aborted ? stuck(deadlineMs, error) : error;
    await writeRounds(store, { ...known, failure: failureOf(known, told, now()) }, options);
    throw told;
  }
}

function stuck(deadlineMs: number, cause: unknown): FlynnError {
  return new FlynnError('timeout', `it did not end within ${deadlineMs / 60_000} minutes`, { cause });
}

function failureOf({ failure }: RoundState, error: unknown, nowMs: number): NonNullable<RoundState['failure']> {
  const message = messageOf(error).slice(0, 1_000);
  return { since: failure?.since ?? iso(nowMs), message, isUnreadable: isUnreadable(error) };
}

async function lastUse(blobs: BlobCollector, signal: AbortSignal): Promise<number | undefined> {
  let last: number | undefined;
  for await (const { usedAt } of blobs.list({ signal })) last = Math.max(last ?? 0, usedAt);
  return last;
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
