/** What is missing of a scale that took too long: which jobs, and why. */
import { jobs } from '@flynn/controller/api';
import { workloadIdOf } from '@flynn/controller/processes/compile';
import type { App, Job, Release } from '@flynn/controller/model';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import type { Context } from '../context.ts';
import { isWaiting, makeRoom, readBlocked } from '../deployments/waiting-jobs.ts';

export type Scaling = { app: App; release: Release; wanted: Record<string, number> };

export async function scaleTimeout(
  context: Context,
  { app, release, wanted, waitMs }: Scaling & { waitMs: number },
): Promise<FlynnError> {
  const what = `not there after ${waitMs / 1_000} s`;
  const next = '"flynn ps" shows how far it is';
  const client = await context.client();
  let found: Job[];
  let blocked: Map<string, string>;
  try {
    [found, blocked] = await Promise.all([
      client.call(jobs.list, { params: { app: app.id } }),
      readBlocked(client, app.id),
    ]);
  } catch (error) {
    const why = `the cluster does not say now what is missing: ${messageOf(error)}`;
    return new FlynnError('timeout', `${what}\n  ${why}\n  it goes on by itself: ${next}`, { cause: error });
  }
  const lines = Object.entries(wanted).map(([type, count]) => {
    const own = found.filter((job) => job.type === type && job.releaseId === release.id);
    const up = own.filter((job) => job.state === 'running').length;
    const why = blocked.get(workloadIdOf(app.id, release, type));
    return `\n  ${type}: ${up} of ${count} running${lackingLines(own, why).join('')}`;
  });
  const waits = Object.keys(wanted).some((type) => blocked.has(workloadIdOf(app.id, release, type)));
  const onward = waits
    ? `it goes on by itself as soon as there is room; ${makeRoom}\n  ${next}`
    : `it goes on by itself: ${next}`;
  return new FlynnError('timeout', `${what}${lines.join('')}\n  ${onward}`);
}

/** Those of whom the same is to be said are counted. */
function lackingLines(own: readonly Job[], blocked: string | undefined): string[] {
  const groups = Map.groupBy(
    own.filter(({ state }) => state !== 'running'),
    (job) => `${job.state}: ${whyNot(job, blocked)}`,
  );
  const isTold = blocked === undefined || own.some(isWaiting);
  const lines = [...groups].map(([text, [first, ...others]]) => {
    return `\n    ${others.length === 0 ? (first?.id ?? '') : `${others.length + 1} jobs`} ${text}`;
  });
  // Of a type that is to be on every host nobody else counts those that have no place.
  return isTold ? lines : [...lines, `\n    pending: ${blocked}`];
}

function whyNot(job: Job, blocked: string | undefined): string {
  if (job.error !== undefined) return job.error;
  return isWaiting(job) ? (blocked ?? 'no host has taken it yet') : 'not up yet';
}
