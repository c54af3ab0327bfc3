/** What of a look is worth being written down? Pure. */
import { iso } from '../job-views.ts';
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
  const isSameHeld = before.held?.reason === held?.reason;
  const isDue = before.seen === undefined || nowMs - Date.parse(before.seen.at) >= everyMs;
  const isOther = before.seen?.wanted !== seen?.wanted || before.seen?.figures !== seen?.figures;
  const isTold = seen !== undefined && isOther && isDue;
  if (isSameHeld && !isTold) return before;
  const { held: _held, seen: _seen, ...rest } = before;
  const since = isSameHeld ? before.held?.since : undefined;
  const nextSeen = seen === undefined ? before.seen : { at: iso(nowMs), ...seen };
  return {
    ...rest,
    ...(held === undefined ? {} : { held: { ...held, since: since ?? iso(nowMs) } }),
    ...(nextSeen === undefined ? {} : { seen: nextSeen }),
  };
}

export type Change = Readonly<{ nowMs: number; from: number; to: number; wanted: number; figures: string | undefined }>;

export function statusWithChange(before: Status, { nowMs, from, to, wanted, figures }: Change): Status {
  const { held: _held, ...rest } = before;
  const at = iso(nowMs);
  return {
    ...rest,
    ...(figures === undefined ? {} : { seen: { at, wanted, figures } }),
    last: {
      at,
      from,
      to,
      why: figures === undefined ? 'outside of its range' : `${wanted} wanted: a job has ${figures}`,
    },
    changes: before.changes + 1,
  };
}
