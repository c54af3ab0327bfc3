/** Jobs that wait for a place: how many of each workload there are, and why, as the schedulers say. */
import { evaluations } from '@flynn/controller/hosts/api';
import type { Job } from '@flynn/controller/model';
import { type Clock, pause } from '@flynn/kit/clock';
import { hasCode } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import { eitherCommand } from '@flynn/kit/operator-commands';

const pollMs = 1_000;

/** What to do about it, for the end of a sentence. */
export const makeRoom = `make room: add a host by ${eitherCommand('join')}, scale something down, or ask for less: flynn limit set, flynn constraint set`;

export function isWaiting({ state, hostId }: Job): boolean {
  return state === 'pending' && hostId === undefined;
}

/** In their order, those of a workload that wait as one: the first of them, and how many. */
export function gatherWaiting<J extends Job>(jobs: readonly J[]): { job: J; count: number }[] {
  const counts = new Map<string, number>();
  for (const job of jobs) {
    if (isWaiting(job)) counts.set(job.workloadId, (counts.get(job.workloadId) ?? 0) + 1);
  }
  const seen = new Set<string>();
  return jobs.flatMap((job) => {
    if (!isWaiting(job)) return [{ job, count: 1 }];
    if (seen.has(job.workloadId)) return [];
    seen.add(job.workloadId);
    return [{ job, count: counts.get(job.workloadId) ?? 1 }];
  });
}

/** Of an app's workloads that wait for room: why. */
export async function readBlocked(
  client: HttpClient,
  app: string,
  options: { signal?: AbortSignal } = {},
): Promise<Map<string, string>> {
  const found = await client.call(evaluations.list, { query: { app, state: 'blocked' } }, options);
  const oldestFirst = found.toReversed();
  return new Map(oldestFirst.flatMap(({ workloadId, reason }) => (reason === undefined ? [] : [[workloadId, reason]])));
}

/** Tells of each of the workloads why it waits, and again when that is another reason, until the signal aborts. */
export async function followBlocked(
  { client, app, workloadIds }: { client: HttpClient; app: string; workloadIds: readonly string[] },
  { signal, clock, onBlocked }: { signal: AbortSignal; clock: Clock; onBlocked: (id: string, why: string) => void },
): Promise<void> {
  const told = new Map<string, string>();
  while (!signal.aborted) {
    await pause(pollMs, signal, clock);
    try {
      const blocked = await readBlocked(client, app, { signal });
      for (const id of workloadIds) {
        const why = blocked.get(id);
        if (why === undefined || why === told.get(id)) continue;
        told.set(id, why);
        onBlocked(id, why);
      }
    } catch (error) {
      // Somebody else waits for the jobs themselves, and tells what is wrong.
      if (!hasCode(error, 'unavailable', 'timeout')) return;
    }
  }
}
