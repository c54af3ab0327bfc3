/** Forgetting a host that is gone for good, and what of it nobody else has: the volumes of jobs. */
import { FlynnError } from '@flynn/kit/errors';
import { eitherCommand } from '@flynn/kit/operator-commands';
import { cellKeys, claimSchema } from '@flynn/scheduler/cell';
import { evaluationPut } from '@flynn/scheduler/evaluations';
import type { HeldVolumes } from './api.ts';
import type { CellView } from '../mirrors/cell-view.ts';
import { appIdOf } from '../processes/compile.ts';
import { evaluationContext } from '../deps.ts';
import type { Deps } from '../deps.ts';
import { plainVolumeName } from '../volumes/names.ts';

const leaseOf = (hostId: string): string => `/flynn/network/hosts/${hostId}`;

/**
 * Workloads with slots whose volumes are on that host and nowhere else, by the app they are of: these slots wait for it. `names`
 * by the ids of apps.
 */
export function volumesHeld(
  cell: Pick<CellView, 'assignments' | 'workloads'>,
  hostId: string,
  names: ReadonlyMap<string, string>,
): HeldVolumes[] {
  const held = new Map<string, Set<string>>();
  const elsewhere = new Map<string, number>();
  for (const [key, { value }] of cell.assignments.snapshot.entries) {
    const isHere = key.startsWith(`${hostId}/`);
    for (const { workloadId, demand, jobs } of value.groups) {
      if (!isHere) {
        elsewhere.set(workloadId, (elsewhere.get(workloadId) ?? 0) + jobs.length);
        continue;
      }
      const isWanted = cell.workloads.snapshot.entries.has(workloadId);
      if (!isWanted || demand.volumes.length === 0 || demand.canLeaveVolumes === true) continue;
      const volumes = demand.volumes.map((name) => plainVolumeName(appIdOf(workloadId), name));
      held.set(workloadId, new Set([...(held.get(workloadId) ?? []), ...volumes]));
    }
  }
  return [...held]
    .map(([workloadId, volumes]): HeldVolumes => {
      const type = workloadId.split('-').at(-1) ?? '';
      const known: HeldVolumes = { workloadId, type, volumes: [...volumes].toSorted() };
      const appName = names.get(appIdOf(workloadId));
      if (appName !== undefined) known.appName = appName;
      const others = elsewhere.get(workloadId);
      if (others !== undefined) known.others = others;
      return known;
    })
    .toSorted((a, b) => (a.workloadId < b.workloadId ? -1 : 1));
}

/**
 * Of a host that comes back afterwards everything is made anew. Work that waits to be placed elsewhere is not forgotten, and
 * volumes only when they are given up: then their jobs begin elsewhere with empty ones.
 */
export async function removeHost(
  deps: Pick<Deps, 'store' | 'cell' | 'now' | 'newId'>,
  hostId: string,
  options: { isKnown: boolean; held: readonly HeldVolumes[]; givesUpVolumes: boolean; signal: AbortSignal },
): Promise<void> {
  const { store, cell } = deps;
  const { held, signal } = options;
  const lease = leaseOf(hostId);
  if (!options.isKnown && (await store.get(lease, { signal })) === undefined) {
    throw new FlynnError('not_found', `there is no host "${hostId}"; list them with: flynn host list`);
  }
  const claim = await store.get(cellKeys.claim(hostId), { signal });
  const jobs = claim === undefined ? 0 : claimSchema.parse(JSON.parse(claim.value)).jobs;
  const waiting = jobs - jobsHolding(cell, hostId, held);
  const isFree = jobs === 0 || (options.givesUpVolumes && waiting === 0);
  const again = isFree
    ? held.map(({ workloadId }) => evaluationPut(workloadId, 'host_lost', evaluationContext(deps)))
    : [];
  const result = await store.transact(
    {
      compare: [
        { key: cellKeys.host(hostId), createRevision: 0 },
        // Where its jobs had moved before it went, a claim of nothing is left.
        { key: cellKeys.claim(hostId), modRevision: isFree ? (claim?.modRevision ?? 0) : 0 },
      ],
      then: [
        { delete: cellKeys.claim(hostId) },
        { delete: cellKeys.hostSettings(hostId) },
        { delete: lease },
        { deletePrefix: cellKeys.hostAssignments(hostId) },
        { deletePrefix: cellKeys.hostStatus(hostId) },
        ...again,
      ],
    },
    { signal },
  );
  if (result.succeeded) {
    await Promise.all(
      [cell.settings, cell.statuses, cell.claims].map((mirror) => mirror.reached(result.revision, { signal })),
    );
    return;
  }
  const isThere = (await store.get(cellKeys.host(hostId), { signal })) !== undefined;
  throw new FlynnError('conflict', obstacle(hostId, { isThere, held: waiting === 0 ? held : [] }));
}

function jobsHolding(cell: Pick<CellView, 'assignments'>, hostId: string, held: readonly HeldVolumes[]): number {
  const holding = new Set(held.map(({ workloadId }) => workloadId));
  let jobs = 0;
  for (const [key, { value }] of cell.assignments.snapshot.entries) {
    if (!key.startsWith(`${hostId}/`)) continue;
    for (const group of value.groups) if (holding.has(group.workloadId)) jobs += group.jobs.length;
  }
  return jobs;
}

function obstacle(hostId: string, { isThere, held }: { isThere: boolean; held: readonly HeldVolumes[] }): string {
  if (isThere) {
    return `host ${hostId} is up: empty it with "flynn host drain ${hostId} --wait", run ${eitherCommand('down')} there, then remove it`;
  }
  if (held.length === 0) {
    return `host ${hostId} still has work that waits to be placed elsewhere: "flynn eval list --state blocked" says why`;
  }
  return (
    `host ${hostId} holds volumes that are nowhere else: ${heldText(held)}\n` +
    `  bring it back, and they are there again; if its disk is gone for good: flynn host remove ${hostId} --yes --give-up-volumes\n` +
    `  then these jobs begin elsewhere with empty volumes: ${refillText(held)}`
  );
}

/** What a database has on each of its hosts it copies there anew; what nobody else has is in backups at best. */
function refillText(held: readonly HeldVolumes[]): string {
  const restored = held.filter(({ others }) => others === undefined);
  if (restored.length === held.length) return 'restore what was in them from a backup';
  const copied = 'what replicates itself is copied from the other jobs of its type';
  return restored.length === 0 ? copied : `${copied}; restore what was in ${heldText(restored)} from a backup`;
}

function heldText(held: readonly HeldVolumes[]): string {
  return held
    .map(({ appName, workloadId, type, volumes, others = 0 }) => {
      const whose = appName === undefined ? `workload ${workloadId}` : `${appName} (${type})`;
      const beside = others === 0 ? '' : `, ${others} more ${others === 1 ? 'job' : 'jobs'} of which elsewhere`;
      return `${volumes.join(', ')} of ${whose}${beside}`;
    })
    .join('; ');
}
