/** What of a look is worth being written down? Pure. */
import { iso } from '../jobs/views.ts';
import type { Status } from './model.ts';
import type { Held } from './subject.ts';

/** What is seen changes all the time: it is told so often. */
const everyMs = 60_000;

export type Look = Readonly<{
  nowMs: number;
  held: Held | undefined;
  /** Undefined while nothing is known. */
  seen: Readonly<{ wanted: number; figures: string }> | undefined;
}>;

/** The same object if there is nothing new to tell. */
export function statusAfter(before: Status, { nowMs, held, seen }: Look): Status {
  const isHeldTold = isNewHeld(before.held, held, nowMs);
  const isDue = before.seen === undefined || nowMs - Date.parse(before.seen.at) >= everyMs;
  const isOther = before.seen?.wanted !== seen?.wanted || before.seen?.figures !== seen?.figures;
  const isTold = seen !== undefined && isOther && isDue;
  if (!isHeldTold && !isTold) return before;
  const { held: _held, seen: _seen, ...rest } = before;
  const nextHeld = isHeldTold ? heldAfter(before.held, held, nowMs) : before.held;
  const nextSeen = seen === undefined ? before.seen : { at: iso(nowMs), ...seen };
  return {
    ...rest,
    ...(nextHeld === undefined ? {} : { held: nextHeld }),
    ...(nextSeen === undefined ? {} : { seen: nextSeen }),
  };
}

/** Another reason at once, another why of the same once a minute. */
function isNewHeld(before: Status['held'], held: Held | undefined, nowMs: number): boolean {
  if (before?.reason !== held?.reason) return true;
  if (before === undefined || before.why === held?.why) return false;
  return nowMs - Date.parse(before.at ?? before.since) >= everyMs;
}

function heldAfter(before: Status['held'], held: Held | undefined, nowMs: number): Status['held'] {
  if (held === undefined) return undefined;
  return before?.reason === held.reason
    ? { ...held, since: before.since, at: iso(nowMs) }
    : { ...held, since: iso(nowMs) };
}

export type Change = Readonly<{
  nowMs: number;
  from: number;
  to: number;
  wanted: number;
  figures: string | undefined;
  max: number;
  downAfterMs: number;
}>;

export function statusWithChange(before: Status, change: Change): Status {
  const { held: _held, ...rest } = before;
  const { nowMs, from, to, wanted, figures } = change;
  const at = iso(nowMs);
  return {
    ...rest,
    ...(figures === undefined ? {} : { seen: { at, wanted, figures } }),
    last: { at, from, to, why: whyOf(change) },
    changes: before.changes + 1,
  };
}

/** Down it goes to the most there was lately, and up in steps: neither need be what is wanted now. */
function whyOf({ from, to, wanted, figures, max, downAfterMs }: Change): string {
  if (figures === undefined) return 'outside of its range';
  const most = to < from && wanted < to ? `, at most ${to} in the last ${spanText(downAfterMs)}` : '';
  const step = to > from && to < Math.min(wanted, max) ? ', in steps' : '';
  return `${wanted} wanted${most}${step}: a job has ${figures}`;
}

function spanText(ms: number): string {
  return ms % 60_000 === 0 ? `${ms / 60_000}m` : `${Math.round(ms / 1_000)}s`;
}
