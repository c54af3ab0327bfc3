/** What is there to say of an instance besides its state? Pure. */
import type { Job } from '@flynn/controller/model';
import type { Tone } from '../parts/tone.ts';
import { durationText } from '../text.ts';

export const jobTones: Readonly<Record<Job['state'], Tone>> = {
  pending: 'busy',
  starting: 'busy',
  running: 'good',
  stopping: 'busy',
  done: 'quiet',
  crashed: 'bad',
  failed: 'bad',
  lost: 'bad',
};

/** Why it ended, the last time; when it is started again. */
export function noteOf(job: Job, now: number): string | undefined {
  const notes = [endOf(job), nextStartOf(job, now)].filter((note) => note !== undefined);
  return notes.length === 0 ? undefined : notes.join('; ');
}

function endOf({ error, exitCode, lastError }: Job): string | undefined {
  if (error !== undefined) return error;
  if (exitCode !== undefined) return `exit code ${exitCode}`;
  return lastError === undefined ? undefined : `before: ${lastError}`;
}

function nextStartOf({ nextStartAt }: Job, now: number): string | undefined {
  const leftMs = nextStartAt === undefined ? 0 : Date.parse(nextStartAt) - now;
  return leftMs <= 0 ? undefined : `starts again in ${durationText(leftMs)}`;
}
