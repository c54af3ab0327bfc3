/** What jobs keep on this host: who has which volume, and removing one that nobody has. */
import { FlynnError } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { volumeRoutes } from './api.ts';
import type { HostVolume } from './api.ts';
import type { ContainerTable } from '../containers/table.ts';
import type { CallOptions, Container, Engine } from '../engine/engine.ts';
import type { Host } from '../host.ts';
import type { JobTable } from '../jobs/table.ts';
import { metaOfLabels, volumeName } from '../engine/labels.ts';
import type { LogPump } from '../logs/pump.ts';
import { jobIdOf } from '../jobs/plan.ts';
import type { VolumeSizes } from './sizes.ts';

export type VolumeDeps = {
  engine: Pick<Engine, 'listVolumes' | 'removeVolume' | 'remove' | 'list'>;
  containers: Pick<ContainerTable, 'delete'>;
  cluster: string;
  host: Pick<Host, 'assigned' | 'unresolved'> & { jobs: Pick<JobTable, 'get'> };
  pump: Pick<LogPump, 'isShipped'>;
  sizes: Pick<VolumeSizes, 'of'>;
};

export function volumeHandlers(deps: VolumeDeps): Handler[] {
  return [
    handle(volumeRoutes.list, async ({ query, signal }) =>
      listHostVolumes(deps, { signal, hasSizes: query.sizes === true }),
    ),
    handle(volumeRoutes.remove, async ({ params, signal }) => removeHostVolume(deps, params.volume, { signal })),
  ];
}

export async function listHostVolumes(
  deps: VolumeDeps,
  options: { signal: AbortSignal; hasSizes?: boolean },
): Promise<HostVolume[]> {
  const [volumes, containers] = await Promise.all([deps.engine.listVolumes(options), deps.engine.list(options)]);
  const prefix = volumeName(deps.cluster, '');
  const own = volumes.filter(({ name }) => name.startsWith(prefix));
  const names = own.map(({ name }) => name);
  const sizes = options.hasSizes === true ? await deps.sizes.of(names, options) : new Map<string, number>();
  return own
    .map(({ name: full, labels, createdAtMs }): HostVolume => {
      const name = full.slice(prefix.length);
      const jobs = usersOf(deps, name, containers);
      return { name, meta: metaOfLabels(labels), createdAtMs, jobs, bytes: sizes.get(full) };
    })
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

/**
 * `conflict` while a job is to run with it, or runs. What is left of jobs that ended goes with it: their containers hold it, and
 * are kept only to be looked at. `conflict` too while the log of one of them has not been taken yet.
 */
export async function removeHostVolume(deps: VolumeDeps, name: string, options: CallOptions): Promise<void> {
  const { engine, cluster } = deps;
  const containers = await engine.list(options);
  const unresolved = deps.host.unresolved();
  if (unresolved !== undefined) {
    throw new FlynnError(
      'unavailable',
      unresolved === 'yet'
        ? 'which volumes the jobs of this host are to have is still being read: try again in a moment'
        : 'which volumes the jobs of this host are to have cannot be read by its version: its log says what, try again once it is updated',
    );
  }
  const [user] = usersOf(deps, name, containers);
  if (user !== undefined) {
    throw new FlynnError('conflict', `the volume ${name} is in use by the job ${user}: nothing was removed`);
  }
  const holders = containers.filter(({ volumes }) => volumes.includes(volumeName(cluster, name)));
  const unread = holders.find((container) => !deps.pump.isShipped(container));
  if (unread !== undefined) {
    throw new FlynnError(
      'conflict',
      `the volume ${name} was the job ${jobIdOf(unread)}'s, which has ended and whose log is still being read: try again in a moment`,
    );
  }
  for (const { id } of holders) {
    await engine.remove(id, options);
    deps.containers.delete(id);
  }
  await engine.removeVolume(volumeName(cluster, name), options);
}

/** A job that waits to be started again has no container that runs, and one that is no longer wanted may still have one. */
function usersOf({ host, cluster }: VolumeDeps, name: string, containers: readonly Container[]): string[] {
  const wanted = host
    .assigned()
    .filter(({ id, desired }) => desired === 'run' && host.jobs.get(id)?.status.isFinal !== true)
    .filter(({ template }) => template.volumes.some((volume) => volume.name === name));
  const holding = containers.filter(
    ({ state, volumes }) => state === 'running' && volumes.includes(volumeName(cluster, name)),
  );
  return [...new Set([...wanted.map(({ id }) => id), ...holding.map(jobIdOf)])].toSorted();
}
