/** Hosts as operators see and steer them. What is wanted of a host is its settings; schedulers act on them. */
import type { BlobClient } from '@flynn/blobstore/client';
import { FlynnError } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { cellKeys, hostSettingsSchema } from '@flynn/scheduler/cell';
import type { HostRecord, OperatorSettings } from '@flynn/scheduler/cell';
import { evaluationPut } from '@flynn/scheduler/evaluations';
import { isOpen } from '@flynn/scheduler/feasible';
import { cordoned, drained, opened, undrained } from '@flynn/scheduler/operator-settings';
import type { Operation } from '@flynn/store/store';
import { hosts } from './api.ts';
import type { HeldVolumes, HostDetail, HostView } from './api.ts';
import { seenStatuses, valuesOf } from '../mirrors/cell-view.ts';
import { staysOn } from '../datastores/switchover.ts';
import { evaluationContext } from '../deps.ts';
import type { Deps } from '../deps.ts';
import { checkDoors } from './doors.ts';
import { withTags } from './tags.ts';
import { checkLostBlobs, checkSoleCopies } from './blobs.ts';
import { removeHost, volumesHeld } from './removal.ts';
import { hasEnded, iso, jobOfStatus } from '../jobs/views.ts';
import type { Job } from '../model.ts';
import { appType } from '../resources.ts';
import type { AppResource } from '../resources.ts';

const maxAttempts = 8;
/** A transaction holds a hundred operations on any store. */
const evaluationsAtOnce = 100;
const noSettings = hostSettingsSchema.parse({});

export function hostHandlers(deps: Deps, blobs: Pick<BlobClient, 'replication' | 'list'>): Handler[] {
  const change = async (
    hostId: string,
    signal: AbortSignal,
    next: (settings: OperatorSettings) => OperatorSettings,
  ): Promise<HostView> => {
    knownHost(deps, hostId);
    return viewHost(deps, hostId, await changeSettings(deps, hostId, next, signal));
  };
  return [
    handle(hosts.list, async ({ signal }) => {
      await catchUp(deps, signal);
      return hostIds(deps).map((id) => viewHost(deps, id));
    }),
    handle(hosts.get, async ({ params, signal }) => {
      await catchUp(deps, signal);
      knownHost(deps, params.host);
      return detailOf(deps, params.host, signal);
    }),
    handle(hosts.tag, async ({ params, body, signal }) => {
      const tagged = (before: OperatorSettings) => ({ ...before, tags: withTags(before.tags, body.tags) });
      await checkDoors(deps, params.host, tagged(knownSettings(deps, params.host)), signal);
      return change(params.host, signal, tagged);
    }),
    handle(hosts.cordon, async ({ params, signal }) => change(params.host, signal, cordoned)),
    handle(hosts.uncordon, async ({ params, signal }) => change(params.host, signal, opened)),
    handle(hosts.drain, async ({ params, body, signal }) => {
      const { host } = params;
      // Alone it has everything alone; emptied already it has no store that could be asked.
      const { entries } = deps.cell.hosts.snapshot;
      const isAmongOthers = entries.size > 1 && entries.has(host);
      const draining = (settings: OperatorSettings) => drained(settings, body, deps.now());
      if (isAmongOthers) await checkDoors(deps, host, draining(knownSettings(deps, host)), signal);
      if (isAmongOthers && !body.giveUpBlobs) await checkSoleCopies(blobs, host, { signal });
      return change(host, signal, draining);
    }),
    handle(hosts.undrain, async ({ params, signal }) => change(params.host, signal, undrained)),
    handle(hosts.remove, async ({ params, query, signal }) => {
      const held = volumesHeld(deps.cell, params.host, await appNames(deps, signal));
      const isKnown = hostIds(deps).includes(params.host);
      const givesUpVolumes = query.giveUpVolumes === true;
      const isAway = !deps.cell.hosts.snapshot.entries.has(params.host);
      if (isKnown && isAway && query.giveUpBlobs !== true) await checkLostBlobs(deps, blobs, params.host, { signal });
      await removeHost(deps, params.host, { isKnown, held, givesUpVolumes, signal });
    }),
    handle(hosts.rebalance, async ({ signal }) => ({ workloads: await rebalance(deps, signal) })),
  ];
}

/** What another web process wrote of hosts a moment ago is in the mirror after this. */
async function catchUp({ store, cell }: Pick<Deps, 'store' | 'cell'>, signal: AbortSignal): Promise<void> {
  const { entries } = await store.list(cellKeys.settings, { signal });
  const newest = Math.max(0, ...entries.map(({ modRevision }) => modRevision));
  await cell.settings.reached(newest, { signal });
}

/** Those that are there, and those that left a trace: a host that dies must not vanish from the list of hosts. */
function hostIds({ cell }: Pick<Deps, 'cell'>): string[] {
  const ids = [cell.hosts, cell.settings, cell.claims].flatMap(({ snapshot }) => snapshot.entries.keys().toArray());
  const spoke = cell.statuses.snapshot.entries.keys().map((key) => key.slice(0, key.indexOf('/')));
  return [...new Set([...ids, ...spoke])].sort();
}

function knownHost(deps: Deps, hostId: string): void {
  if (!hostIds(deps).includes(hostId)) {
    throw new FlynnError('not_found', `there is no host "${hostId}"; list them with: flynn host list`);
  }
}

function knownSettings({ cell }: Pick<Deps, 'cell'>, hostId: string): OperatorSettings {
  return cell.settings.snapshot.entries.get(hostId)?.value ?? noSettings;
}

function viewHost({ cell }: Deps, id: string, changed?: OperatorSettings): HostView {
  const record = cell.hosts.snapshot.entries.get(id)?.value;
  const claim = cell.claims.snapshot.entries.get(id)?.value;
  const settings = changed ?? knownSettings({ cell }, id);
  const { drain } = settings;
  return {
    id,
    state: stateOf(record, settings),
    ...(record === undefined
      ? {}
      : { address: record.address, capacity: record.capacity, startedAt: iso(record.startedAt) }),
    claimed: { memoryBytes: claim?.memoryBytes ?? 0, cpuMillis: claim?.cpuMillis ?? 0 },
    jobs: claim?.jobs ?? 0,
    attributes: { ...record?.attributes, ...settings.tags },
    tags: settings.tags,
    ...(drain === undefined
      ? {}
      : {
          drain: {
            startedAt: iso(drain.startedAt),
            ...(drain.deadlineAt === undefined ? {} : { deadlineAt: iso(drain.deadlineAt) }),
            maxParallel: drain.maxParallel,
          },
        }),
  };
}

function stateOf(record: HostRecord | undefined, settings: OperatorSettings): HostView['state'] {
  if (record === undefined) return 'away';
  if (settings.drain !== undefined) return 'draining';
  return isOpen(record, settings) ? 'up' : 'cordoned';
}

async function detailOf(deps: Deps, hostId: string, signal: AbortSignal): Promise<HostDetail> {
  const all = await deps.resources.list(appType, { signal });
  const names = namesOf(all);
  const list = seenStatuses(deps.cell, (status) => status.hostId === hostId)
    .filter((status) => !hasEnded(status))
    .map(jobOfStatus)
    .map((job) => Object.assign(job, { appName: names.get(job.appId) ?? '' }))
    .sort((a, b) => (a.appName === b.appName ? (a.id < b.id ? -1 : 1) : a.appName < b.appName ? -1 : 1));
  const view = viewHost(deps, hostId);
  const volumes = volumesHeld(deps.cell, hostId, names);
  const waits = view.drain === undefined ? [] : [...staysOn(deps.cell, hostId, all), ...heldThere(view, volumes, list)];
  return { ...view, list, volumes, waits };
}

/** A drain moves no job from its data. */
function heldThere({ id, drain }: HostView, volumes: readonly HeldVolumes[], list: readonly Job[]): string[] {
  const until =
    drain?.deadlineAt === undefined
      ? `, and no deadline ends it: flynn host drain ${id} --deadline 10m does`
      : ` until ${drain.deadlineAt}`;
  return volumes
    .filter(({ workloadId }) => list.some((job) => job.workloadId === workloadId))
    .map(({ workloadId, appName, type }) => {
      const whose = appName === undefined ? `workload ${workloadId}` : `${type} of ${appName}`;
      return `${whose} stays with its data${until}`;
    });
}

async function appNames({ resources }: Deps, signal: AbortSignal): Promise<Map<string, string>> {
  return namesOf(await resources.list(appType, { signal }));
}

function namesOf(all: readonly AppResource[]): Map<string, string> {
  return new Map(all.map((app) => [app.id, app.spec.name]));
}

async function changeSettings(
  { store, cell }: Deps,
  hostId: string,
  next: (settings: OperatorSettings) => OperatorSettings,
  signal: AbortSignal,
): Promise<OperatorSettings> {
  const key = cellKeys.hostSettings(hostId);
  for (let attempt = 1; attempt <= maxAttempts; attempt += 1) {
    const entry = await store.get(key, { signal });
    const settings = next(hostSettingsSchema.parse(entry === undefined ? {} : JSON.parse(entry.value)));
    const { succeeded, revision } = await store.transact(
      {
        compare: [{ key, modRevision: entry?.modRevision ?? 0 }],
        then: [{ put: key, value: JSON.stringify(settings) }],
      },
      { signal },
    );
    if (!succeeded) continue;
    // Whoever asks next sees it.
    await cell.settings.reached(revision, { signal });
    return settings;
  }
  throw new FlynnError('conflict', `the settings of ${hostId} are being changed by others: try again`);
}

async function rebalance(deps: Deps, signal: AbortSignal): Promise<number> {
  const services = valuesOf(deps.cell.workloads).filter(({ kind, count }) => kind === 'service' && count > 0);
  const context = evaluationContext(deps);
  const puts: Operation[] = services.map(({ id, priority }) => evaluationPut(id, 'rebalance', context, { priority }));
  for (let at = 0; at < puts.length; at += evaluationsAtOnce) {
    await deps.store.transact({ then: puts.slice(at, at + evaluationsAtOnce) }, { signal });
  }
  return services.length;
}
