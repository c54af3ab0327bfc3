/** From when on is somebody judged by what was changed of them? */
import { hasCode } from '@flynn/kit/errors';
import type { Mirror } from '@flynn/store/mirror';
import type { AuditedMutation } from '../audit/trail.ts';

export type Heard = (commits: AuditedMutation['commits'], signal: AbortSignal) => Promise<void>;

/**
 * Here from the answer on, in the other controllers as soon as their watches tell. It was carried out: where the watch is slow
 * (`deadlineMs`, default 5 s) nobody is told that it failed. `mirrors`: what people are judged by, by its type.
 */
export function heardIn(
  mirrors: Readonly<Record<string, Pick<Mirror<unknown>, 'reached'>>>,
  { deadlineMs = 5_000 }: { deadlineMs?: number } = {},
): Heard {
  return async (commits, signal) => {
    const waits = commits.flatMap(({ revision, changes }) =>
      [...new Set(changes.map(({ change }) => change.type))].map(async (type) => {
        try {
          await mirrors[type]?.reached(revision, { signal, deadlineMs });
        } catch (error) {
          if (!hasCode(error, 'timeout', 'cancelled')) throw error;
        }
      }),
    );
    await Promise.all(waits);
  };
}
