/** The kind Formation: how many jobs of each type a release has. `shop` is the live release's, `shop/v3` that of another. */
import { ifFound } from '@flynn/kit/errors';
import { refusal } from '@flynn/resource/record';
import { nameOf } from '@flynn/resource/watch';
import type { Condition } from '@flynn/resource/condition';
import { z } from 'zod';
import { findApp } from '../deps.ts';
import type { Deps } from '../deps.ts';
import { checkCounts } from '../counts.ts';
import { countsToKeep, scaleFormation } from '../formations.ts';
import { differences } from './difference.ts';
import { atField } from './fields.ts';
import { defineKind } from './kind.ts';
import type { Applied, ApplyContext, Wanted } from './kind.ts';
import type { ResourceReader } from './reader.ts';
import { jobsOfApp } from '../job-views.ts';
import type { Cell } from '../job-views.ts';
import { cellOf } from '../jobs.ts';
import { findRelease } from '../releases.ts';
import { appType, formationType, releaseType } from '../resources.ts';
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
    const { up, conditions } = isLive ? conditionsOf(deps, formation, read) : { up: {}, conditions: [] };
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

async function apply(
  deps: Deps,
  { name = '', revision, spec }: Wanted<z.output<typeof wantedSchema>>,
  { isDryRun, signal }: ApplyContext,
): Promise<Applied> {
  const named = await releaseNamed(deps, name, signal);
  if (named === undefined) {
    const message = 'it is an app with a release (APP, or APP/vN): push code, or give the app an image';
    throw refusal(`formation ${name}`, [{ path: 'name', message }]);
  }
  const { app, release } = named;
  const before = await deps.resources.find(formationType, release.id, { signal });
  const kept = await countsToKeep(deps, app, { release, before }, signal);
  for (const [type, count] of Object.entries(spec.processes)) {
    atField(`formation ${name}`, `processes.${type}`, () => checkCounts(app, release, { [type]: count }, kept));
  }
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

/** Placed: every job wanted has a host. Healthy: every one is up. */
function conditionsOf(
  deps: Deps,
  formation: FormationResource,
  read: ResourceReader,
): { up: Record<string, number>; conditions: Condition[] } {
  const jobs = jobsOfApp(formation.spec.appId, cellSeenBy(deps, read), { all: false, nowMs: deps.now() });
  const own = jobs.filter(({ releaseId }) => releaseId === formation.id);
  const up = Object.fromEntries(
    Object.keys(formation.spec.processes).map((type) => [
      type,
      own.filter((job) => job.type === type && job.state === 'running').length,
    ]),
  );
  const waiting = own.filter(({ hostId }) => hostId === undefined);
  const missing = Object.entries(formation.spec.processes).filter(([type, count]) => (up[type] ?? 0) < count);
  const why = waiting.find(({ error }) => error !== undefined)?.error;
  const since = formation.updatedAt;
  const placed = waiting.length === 0;
  const healthy = missing.length === 0;
  return {
    up,
    conditions: [
      {
        type: 'Healthy',
        status: healthy ? 'True' : 'False',
        reason: healthy ? 'AllUp' : 'Starting',
        message: missing.map(([type, count]) => `${up[type] ?? 0} of ${count} ${type} are up`).join(', '),
        since,
      },
      {
        type: 'Placed',
        status: placed ? 'True' : 'False',
        reason: placed ? 'AllPlaced' : 'Waiting',
        message: placed ? '' : `${waiting.length} without a host${why === undefined ? '' : `: ${why}`}`,
        since,
      },
    ],
  };
}
