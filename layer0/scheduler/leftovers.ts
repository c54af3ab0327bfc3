/** Is it long enough that nobody needs it? Also of what does not decode: a fault in it is no reason to keep it for ever. */
import { z } from 'zod';
import { evaluationSchema } from './evaluation.ts';
import { isEnded } from './evaluations.ts';

const evaluationsKeptMs = 60 * 60_000;

/** Only what tells that it ended, and when: it goes whatever else it says, as one of a version to come does. */
const endSchema = evaluationSchema.pick({ state: true, createdAt: true, updatedAt: true });

/** Of an evaluation as the store has it. One that may be open stays, and so does one that says nothing of it. */
export function isOldEvaluation(text: string, now: number): boolean {
  const { data: evaluation } = endSchema.safeParse(parsed(text));
  if (evaluation === undefined) return false;
  return isEnded(evaluation) && (evaluation.updatedAt ?? evaluation.createdAt) < now - evaluationsKeptMs;
}

const time = z.number().optional().catch(undefined);
const timesSchema = z.object({ createdAt: time, startedAt: time, endedAt: time });

/** The latest moment that a status tells of; undefined where it tells of none. */
export function newestTimeOf(text: string): number | undefined {
  const { data: times = {} } = timesSchema.safeParse(parsed(text));
  const told = Object.values(times).filter((one) => one !== undefined);
  return told.length === 0 ? undefined : Math.max(...told);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
