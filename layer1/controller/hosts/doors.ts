/** A cluster keeps a host with what it is changed by. */
import { FlynnError } from '@flynn/kit/errors';
import { attributesOf, failedConstraint } from '@flynn/scheduler/feasible';
import type { OperatorSettings } from '@flynn/scheduler/cell';
import { matchingHosts, seenStatuses, takesJobs, valuesOf } from '../mirrors/cell-view.ts';
import { appIdOf } from '../processes/compile.ts';
import type { Deps } from '../deps.ts';
import { isIndispensable } from '../formations/counts.ts';
import { hasEnded } from '../jobs/views.ts';
import { appType } from '../resources.ts';

/**
 * `conflict` if with these settings no host would have what this API is reached by: that is gone, and the way back with it. A
 * host that drains keeps it only until its other jobs have left, and a cordoned one only what it has.
 */
export async function checkDoors(
  { cell, resources }: Pick<Deps, 'cell' | 'resources'>,
  hostId: string,
  settings: OperatorSettings,
  signal: AbortSignal,
): Promise<void> {
  const host = cell.hosts.snapshot.entries.get(hostId)?.value;
  if (host === undefined) return;
  const known = cell.settings.snapshot.entries;
  const apps = await resources.list(appType, { signal, where: ({ spec }) => spec.isSystem });
  for (const { id, kind, count, constraints } of valuesOf(cell.workloads)) {
    const app = apps.find((one) => one.id === appIdOf(id));
    if (kind !== 'omni' || count === 0 || app === undefined || !isIndispensable(app.spec, 'web')) continue;
    const running = seenStatuses(cell, (status) => status.workloadId === id && !hasEnded(status));
    const keep = new Set(running.map((status) => status.hostId));
    const doors = matchingHosts(cell, constraints).filter(
      (one) => takesJobs(cell, one) || (keep.has(one.id) && known.get(one.id)?.value.drain === undefined),
    );
    const isLast = doors.length === 1 && doors[0]?.id === hostId;
    const isMet = failedConstraint(hostId, attributesOf(host, settings), constraints) === undefined;
    if (!isLast || (isMet && settings.drain === undefined)) continue;
    throw new FlynnError(
      'conflict',
      `${hostId} is the only host left for ${app.spec.name}: without it nothing could be changed any more, nor this taken back; let another host have it first`,
    );
  }
}
