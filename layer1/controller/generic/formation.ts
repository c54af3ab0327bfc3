/** The kind Formation: how many jobs of each type a release has. `shop` is the live release's, `shop/v3` that of another. */
import { ifFound } from '@flynn/kit/errors';
import type { FlynnError } from '@flynn/kit/errors';
import { mayRead } from '@flynn/resource/access';
import { refusal } from '@flynn/resource/record';
import { nameOf } from '@flynn/resource/watch';
import { z } from 'zod';
import { checkRanges } from '../autoscale/settings.ts';
import { matchingHosts } from '../mirrors/cell-view.ts';
import { appIdOf } from '../processes/compile.ts';
import { findApp } from '../deps.ts';
import type { Deps } from '../deps.ts';
import { checkCounts } from '../formations/counts.ts';
import { changedCounts, countsToKeep, scaleFormation } from '../formations/formations.ts';
import { differences } from './difference.ts';
import { atField } from './fields.ts';
import { formationState } from './formation-state.ts';
import type { FormationFacts, FormationState } from './formation-state.ts';
import { defineKind } from './kind.ts';
import type { Applied, ApplyContext, Wanted } from './kind.ts';
import type { ResourceReader } from './reader.ts';
import { hasEnded, jobsOfApp } from '../jobs/views.ts';
import type { Cell } from '../jobs/views.ts';
import { cellOf } from '../jobs/jobs.ts';
import type { Wake } from './wakes.ts';
import { findRelease } from '../releases/releases.ts';
import { appType, formationType, ownedBy, releaseType } from '../resources.ts';
import type { AppResource, FormationResource, ReleaseResource } from '../resources.ts';

const wantedSchema = z.strictObject({
  /** Types that are not here stay as they are. */
  processes: z.record(z.string(), z.int()),
});

export const formationKind = defineKind({
  type: formationType,
  summary: 'how many jobs of each process type a release has',
  columns: { APP: 'owner' },
  wanted: wantedSchema,
  wakes: followJobs,
  // Of a file of everything it is part of the app.
  isExported: false,
  async find(deps, name, signal) {
    const byId = await deps.resources.find(formationType, name, { signal });
    if (byId !== undefined) return byId;
    const named = await releaseNamed(deps, name, signal);
    return named === undefined ? undefined : deps.resources.find(formationType, named.release.id, { signal });
  },
  async view(deps, formation, read) {
    const [app, release] = await Promise.all([
      read.find(appType, formation.spec.appId),
      read.find(releaseType, formation.id),
    ]);
    const isLive = app?.status.releaseId === formation.id;
    // What is not live runs nothing: there is nothing to tell of it.
    const processes = release?.spec.processes ?? {};
    const { up, conditions } = isLive ? stateOf(deps, { formation, processes }, read) : { up: {}, conditions: [] };
    return {
      ...(release === undefined || app === undefined
        ? {}
        : { name: `${nameOf(appType, app)}/v${release.spec.version}` }),
      spec: { processes: formation.spec.processes },
      status: { up },
      conditions,
      // The workload is written together with the count: schedulers never see an older one.
      ...(conditions.length === 0 ? {} : { observedGeneration: formation.generation }),
    };
  },
  async target(deps, { name = '' }, { asking, signal }) {
    const named = await releaseNamed(deps, name, signal);
    if (named !== undefined) await asking.learn([named.app], signal);
    // What somebody may not see is not there for them.
    if (named === undefined || !mayRead(appType, asking, named.app)) throw noRelease(name);
    const current = await deps.resources.find(formationType, named.release.id, { signal });
    return { current, owner: ownedBy(named.app.id) };
  },
  apply,
});

type Named = { app: AppResource; release: ReleaseResource };

async function releaseNamed(deps: Deps, name: string, signal: AbortSignal): Promise<Named | undefined> {
  const [appName = '', version] = name.split('/');
  const app = await ifFound(findApp(deps, appName, signal));
  const wanted = version ?? app?.status.releaseId;
  if (app === undefined || wanted === undefined) return undefined;
  const release = await ifFound(findRelease(deps, app, wanted, signal));
  return release === undefined ? undefined : { app, release };
}

function noRelease(name: string): FlynnError {
  const message = 'it is an app with a release (APP, or APP/vN): push code, or give the app an image';
  return refusal(`formation ${name}`, [{ path: 'name', message }]);
}

async function apply(
  deps: Deps,
  { name = '', owner, revision, spec }: Wanted<z.output<typeof wantedSchema>>,
  { isDryRun, signal, current: before }: ApplyContext<FormationResource>,
): Promise<Applied> {
  const named = await releaseNamed(deps, name, signal);
  // The name may be another app's by now.
  if (named === undefined || named.app.id !== owner?.id) throw noRelease(name);
  const { app, release } = named;
  const kept = await countsToKeep(deps, app, { release, before }, signal);
  for (const [type, count] of Object.entries(spec.processes)) {
    atField(`formation ${name}`, `processes.${type}`, () => checkCounts(app, release, { [type]: count }, kept));
  }
  const isLive = app.status.releaseId === release.id;
  if (isLive) await checkRanges(deps, app, changedCounts(before?.spec.processes, spec.processes), signal);
  const counts = { ...before?.spec.processes, ...spec.processes };
  const changes = differences({ spec: { processes: before?.spec.processes ?? {} } }, { spec: { processes: counts } });
  const at = revision === undefined ? {} : { revision };
  const scaling = { app: app.id, release: release.id, counts: spec.processes, ...at };
  if (!isDryRun && changes.length > 0) await scaleFormation(deps, scaling, signal);
  return { name, isNew: before === undefined, changes };
}

/** Of many formations shown at once all are of one look at the cell. */
const cells = new WeakMap<ResourceReader, Cell>();

function cellSeenBy({ cell }: Deps, read: ResourceReader): Cell {
  const seen = cells.get(read) ?? cellOf(cell);
  cells.set(read, seen);
  return seen;
}

function stateOf(
  deps: Deps,
  { formation, processes }: Pick<FormationFacts, 'processes'> & { formation: FormationResource },
  read: ResourceReader,
): FormationState {
  const cell = cellSeenBy(deps, read);
  const { appId } = formation.spec;
  const jobs = jobsOfApp(appId, cell, { all: false, nowMs: deps.now() });
  return formationState({
    formation,
    processes,
    statuses: cell.statuses.filter(
      (status) =>
        appIdOf(status.workloadId) === appId && status.meta['flynn.release'] === formation.id && !hasEnded(status),
    ),
    waiting: jobs.filter(({ releaseId, hostId }) => releaseId === formation.id && hostId === undefined),
    hostsFor: ({ constraints = [] }) => matchingHosts(deps.cell, constraints).length,
  });
}

/** Jobs, where they are to be and why they are not, hosts, and deployments, which say what is live. */
function followJobs({ cell, deployments }: Deps, wake: Wake): () => void {
  const wakeOf = (workloadId: string | undefined) => wake(appIdOf(workloadId ?? ''));
  const stops = [
    cell.statuses.onChange(({ before, after }) => wakeOf((after ?? before)?.workloadId)),
    cell.workloads.onChange(({ key }) => wakeOf(key)),
    cell.evaluations.onChange(({ before, after }) => wakeOf((after ?? before)?.workloadId)),
    cell.assignments.onChange(({ before, after }) => {
      for (const { workloadId } of [...(before?.groups ?? []), ...(after?.groups ?? [])]) wakeOf(workloadId);
    }),
    cell.hosts.onChange(() => wake()),
    cell.settings.onChange(() => wake()),
    deployments.onChange(({ before, after }) => wake((after ?? before)?.spec.appId)),
  ];
  return () => {
    for (const stop of stops) stop();
  };
}
