/** Which job does a program run beside, and how is it started there? */
import { FlynnError, hasCode } from '@flynn/kit/errors';
import type { JobStatus } from '@flynn/scheduler/cell';
import { statusesOfApp } from '../mirrors/cell-view.ts';
import { startedBySlug } from '../processes/compile.ts';
import type { Deps } from '../deps.ts';
import { artifactType, releaseType } from '../resources.ts';
import type { AppResource } from '../resources.ts';

/** The running job named; else of the type, else of any, the one on the host of which the least is taken. */
export function execTarget(
  deps: Pick<Deps, 'cell'>,
  app: AppResource,
  { job, type }: { job?: string | undefined; type?: string | undefined },
): JobStatus {
  const { cell } = deps;
  const running = statusesOfApp(cell, app.id).filter(({ state, isUncertain }) => state === 'running' && !isUncertain);
  const isWanted = ({ id, workloadId, meta }: JobStatus) =>
    job === undefined ? type === undefined || meta['flynn.type'] === type : id === job || workloadId === job;
  const loadOf = ({ hostId }: JobStatus): number => {
    const claimed = cell.claims.snapshot.entries.get(hostId)?.value.memoryBytes ?? 0;
    const capacity = cell.hosts.snapshot.entries.get(hostId)?.value.capacity.memoryBytes ?? 1;
    return claimed / capacity;
  };
  const found = running.filter(isWanted);
  // What was asked for by people comes after what serves: a shell is wanted beside the app, not beside another shell.
  const isOneOff = ({ workloadId, meta }: JobStatus) => !workloadId.endsWith(`-${meta['flynn.type'] ?? ''}`);
  const [target] = found.toSorted(
    (a, b) => Number(isOneOff(a)) - Number(isOneOff(b)) || loadOf(a) - loadOf(b) || (a.id < b.id ? -1 : 1),
  );
  if (target !== undefined) return target;
  const what = job === undefined ? (type === undefined ? 'job' : `${type} job`) : `job ${job}`;
  throw new FlynnError(
    'not_found',
    `${app.spec.name} has no ${what} that runs; list them with: flynn ps -a ${app.spec.name}, or use flynn run for a new one`,
  );
}

/** In a slug with its profile scripts, like everything of it. */
export async function execCommand(
  deps: Pick<Deps, 'resources'>,
  { meta }: JobStatus,
  command: readonly string[],
  signal: AbortSignal,
): Promise<string[]> {
  try {
    const release = await deps.resources.get(releaseType, meta['flynn.release'] ?? '', { signal });
    if (release.spec.artifactId === undefined) return [...command];
    const artifact = await deps.resources.get(artifactType, release.spec.artifactId, { signal });
    return artifact.spec.type === 'slug' ? startedBySlug(command).command : [...command];
  } catch (error) {
    // The job outlived its release.
    if (!hasCode(error, 'not_found')) throw error;
    return [...command];
  }
}
