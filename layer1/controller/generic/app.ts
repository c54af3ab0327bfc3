/** The kind App: an app whole, as one file has it. What is wanted is brought about by the same rules as by hand. */
import { FlynnError } from '@flynn/kit/errors';
import { shortId } from '@flynn/kit/ids';
import { holds } from '@flynn/resource/access';
import { refusal } from '@flynn/resource/record';
import { withoutEnv } from '../access/redaction.ts';
import { checkRemoval, createApp, defaultDeployTimeoutMs } from '../apps/apps.ts';
import { withinRanges } from '../autoscale/settings.ts';
import { serviceNameOf } from '../processes/compile.ts';
import { checkCount, keptCounts } from '../formations/counts.ts';
import { refuseForDatastore } from '../datastores/guards.ts';
import { checkDeployed, startDeployment } from '../deployments/deployments.ts';
import type { Deps } from '../deps.ts';
import { changedCounts, scaleFormation } from '../formations/formations.ts';
import { checkPlaces, checkRoutes, routeOf, setRoutes, withKnownReleases } from './app-routes.ts';
import { nextState, specOfApp, wantedAppSchema } from './app-state.ts';
import type { AppState, WantedApp } from './app-state.ts';
import { differences, fieldOf, isEqual } from './difference.ts';
import { atField } from './fields.ts';
import { defineKind } from './kind.ts';
import type { Applied, ApplyContext, Wanted } from './kind.ts';
import { beingDeleted } from './plain.ts';
import { readOne } from './reader.ts';
import type { ResourceReader } from './reader.ts';
import { checkImage } from '../images/check-image.ts';
import { checkNeighbours, createRelease } from '../releases/releases.ts';
import { appType, artifactType, formationType, ownedBy, releaseType, routeType } from '../resources.ts';
import type { AppResource, ReleaseResource } from '../resources.ts';
import { checkReview, reviewPieces } from '../apps/review-apps.ts';
import { withoutReview, withReview } from '../apps/review-meta.ts';
import { withoutHashes } from '../routes/guard.ts';
import { defaultSettings } from './route-settings.ts';

export const appKind = defineKind({
  type: appType,
  summary: 'an app with its env, processes, counts, limits, links and routes',
  columns: { IMAGE: 'spec.image', RELEASE: 'status.releaseId' },
  wanted: wantedAppSchema,
  showsOwned: [formationType, routeType],
  async view(_deps, app, read) {
    const { state } = await stateOf(app, read);
    return { spec: specOfApp(portable(state)), status: { ...app.status, isSystem: app.spec.isSystem } };
  },
  apply: applyApp,
  withoutSecrets: ({ routes, ...spec }) => ({ ...withoutEnv(spec), routes: withoutHashes(routes) }),
  checkRemoval(app, asking) {
    checkRemoval(app);
    if (asking.isOperator || holds(asking, 'admin', ownedBy(app.id))) return;
    throw new FlynnError('denied', `${asking.name} may not delete ${app.spec.name}: only an admin of the app may`);
  },
});

type Known = {
  state: AppState;
  /** What the next release starts from. */
  basis: ReleaseResource | undefined;
};

async function stateOf(app: AppResource, read: ResourceReader): Promise<Known> {
  const [basis, routes] = await Promise.all([basisOf(app, read), read.owned(routeType, ownedBy(app.id))]);
  const [artifact, formation] = await Promise.all([
    basis?.spec.artifactId === undefined ? undefined : read.find(artifactType, basis.spec.artifactId),
    basis === undefined ? undefined : read.find(formationType, basis.id),
  ]);
  const image = artifact !== undefined && 'name' in artifact.spec.image ? artifact.spec.image.name : undefined;
  const { meta, deployTimeoutMs } = app.spec;
  const state: AppState = {
    meta,
    deployTimeoutMs,
    ...(image === undefined ? {} : { image }),
    env: basis?.spec.env ?? {},
    processes: basis?.spec.processes ?? {},
    counts: formation?.spec.processes ?? {},
    routes: routes.map(routeOf),
  };
  return { state, basis };
}

/** As `findBasis` has it. */
async function basisOf(app: AppResource, read: ResourceReader): Promise<ReleaseResource | undefined> {
  if (app.status.releaseId !== undefined) return read.find(releaseType, app.status.releaseId);
  // Without one there is nothing to look for among those of all apps.
  if (app.status.lastVersion === 0) return undefined;
  const all = await read.owned(releaseType, ownedBy(app.id));
  return all.toSorted((a, b) => b.spec.version - a.spec.version)[0];
}

function portable(state: AppState): AppState {
  const { weights, releaseAffinity } = defaultSettings.http;
  const routes = state.routes.map(({ settings: { http, tcp }, ...entry }) => ({
    ...entry,
    settings: { http: { ...http, weights, releaseAffinity }, tcp },
  }));
  return { ...state, meta: withoutReview(state.meta), routes };
}

/** What an app is like that has just been made. */
function newState({ settings }: Deps, name: string): AppState {
  return {
    meta: {},
    deployTimeoutMs: defaultDeployTimeoutMs,
    env: {},
    processes: {},
    counts: {},
    routes: [
      {
        domain: `${name}.${settings.domain}`,
        path: '/',
        service: serviceNameOf(name, 'web'),
        settings: defaultSettings,
      },
    ],
  };
}

function newApp({ resources }: Deps, name: string): AppResource {
  const spec = { name, meta: {}, isSystem: false, deployTimeoutMs: defaultDeployTimeoutMs };
  return resources.draft(appType, { id: shortId(), spec }).resource;
}

/** Before anything of the file is brought about: its routes would lead to what its release may not be called. */
async function checkRelease(
  deps: Deps,
  app: AppResource,
  { before, after, basis }: Omit<Step, 'named'>,
  { principal, signal }: ApplyContext,
): Promise<void> {
  const { links = [], artifactId } = basis?.spec ?? {};
  const next = { processes: { ...after.processes }, links };
  if (!isEqual(before.processes, after.processes)) {
    await checkNeighbours(deps, app, { next, before: basis }, { principal, signal });
  }
  const isFirst = app.status.releaseId === undefined && (after.image ?? artifactId) !== undefined;
  if (isFirst) await checkDeployed(deps, app, { next, live: undefined }, { principal, signal });
}

/** In steps, each of which finds what those before it did, should it have to be asked again. */
async function applyApp(deps: Deps, wanted: Wanted<WantedApp>, context: ApplyContext<AppResource>): Promise<Applied> {
  const { signal, isDryRun, current } = context;
  const { name } = wanted;
  if (name === undefined) throw refusal('app', [{ path: 'name', message: 'an app has a name' }]);
  if (wanted.owner !== undefined)
    throw refusal(`app ${name}`, [{ path: 'owner', message: 'an app belongs to nothing' }]);
  if (current?.deletingSince !== undefined) throw beingDeleted(appKind, name, current);
  // What differs is told with what there was.
  if (current !== undefined && !context.principal.isAdmin) {
    refuseForDatastore(current, 'its file is for admins of the cluster; flynn scale, limit and constraint are for you');
  }
  const known = current === undefined ? undefined : await stateOf(current, readOne(deps.resources, signal));
  const before = known?.state ?? newState(deps, name);
  const spec = await withKnownReleases(deps, { name, app: current, wanted: wanted.spec }, signal);
  const after = nextState(current?.spec.name ?? name, before, spec);
  const labels = wanted.labels ?? current?.labels ?? {};
  const was = known === undefined ? {} : { labels: current?.labels ?? {}, spec: specOfApp(before) };
  const changes = differences(was, { labels, spec: specOfApp(after) });
  const result = { name, isNew: current === undefined, changes };
  const { isSystem = false } = current?.spec ?? {};
  const { image } = after;
  if (image !== undefined && image !== before.image)
    atField(`app ${name}`, 'image', () => checkImage({ name: image }, deps.settings.name));
  checkAppCounts(name, isSystem, before, after);
  const asked = namedCounts(spec, before, after);
  const changed = changedCounts(before.counts, asked);
  const { counts, notes } =
    current === undefined ? { counts: changed, notes: [] } : await withinRanges(deps, current, changed, context);
  const named = { ...asked, ...counts };
  if (current === undefined) await reviewPieces(deps, after.meta, signal);
  else checkReview(current, after.meta, context.principal);
  await checkPlaces(deps, name, { app: current, routes: after.routes }, signal);
  await checkRoutes(deps, context, { id: current?.id ?? '', spec: { name, isSystem }, before, after });
  const isRunOtherwise = !isSameRun(before, after) || !isEqual(before.counts, after.counts);
  if (isRunOtherwise && current?.status.deploymentId !== undefined) {
    throw new FlynnError('conflict', `a deployment of ${name} is under way: apply it again once it is through`);
  }
  await checkRelease(deps, current ?? newApp(deps, name), { before, after, basis: known?.basis }, context);
  if (isDryRun) return { ...result, notes };
  const { principal } = context;
  const app = current ?? (await createApp(deps, { name, meta: { ...after.meta }, isSystem: false, principal }, signal));
  await setApp(deps, app, wanted, context);
  if (spec.routes !== undefined) await setRoutes(deps, app, { routes: after.routes, changes: spec.routes }, signal);
  const step = { before, after, named, basis: known?.basis };
  const rolledOut = await setRelease(deps, app, step, context);
  return { ...result, ...rolledOut, notes: [...notes, ...(rolledOut.notes ?? [])] };
}

/** What the file leaves out is checked where it gives the type a volume. */
function checkAppCounts(name: string, isSystem: boolean, before: AppState, after: AppState): void {
  const kept = keptCounts(before.processes, before.counts);
  const standing = keptCounts(after.processes, after.counts);
  for (const [type, process] of Object.entries(after.processes)) {
    const count = fieldOf(after.counts, type) ?? 0;
    if (count === (fieldOf(before.counts, type) ?? 0) && !Object.hasOwn(standing, type)) continue;
    atField(`app ${name}`, `processes.${type}.count`, () =>
      checkCount({ name, isSystem }, { type, process, count }, kept),
    );
  }
}

/** What the file leaves out is as it is by now: somebody else may have changed it since it was read. */
async function setApp(
  deps: Deps,
  { id }: AppResource,
  { spec: wanted, labels, revision }: Wanted<WantedApp>,
  { principal, signal }: Pick<ApplyContext, 'principal' | 'signal'>,
): Promise<void> {
  await deps.resources.change(
    appType,
    id,
    ({ spec }) => {
      const { deployTimeoutMs = spec.deployTimeoutMs } = wanted;
      const meta = wanted.meta === undefined ? spec.meta : { ...withReview(spec.meta, wanted.meta) };
      checkReview({ id, spec }, meta, principal);
      return { spec: { ...spec, meta, deployTimeoutMs }, ...(labels === undefined ? {} : { labels }) };
    },
    { signal, ...(revision === undefined ? {} : { expectRevision: revision }) },
  );
}

type Step = {
  before: AppState;
  after: AppState;
  /** The counts that are the file's to say. */
  named: Readonly<Record<string, number>>;
  basis: ReleaseResource | undefined;
};

/** Those it gives, and of types that had none what they begin with. The others may have been changed since they were read. */
function namedCounts({ processes = {} }: WantedApp, before: AppState, after: AppState): Record<string, number> {
  const named = Object.entries(processes).filter(
    ([type, { count }]) => count !== undefined || fieldOf(before.counts, type) === undefined,
  );
  return Object.fromEntries(named.map(([type]) => [type, fieldOf(after.counts, type) ?? 0]));
}

/** A new release if what runs is to be another, rolled out with its counts; else the counts alone. */
async function setRelease(
  deps: Deps,
  app: AppResource,
  step: Step,
  context: ApplyContext,
): Promise<Pick<Applied, 'deploymentId' | 'notes'>> {
  const { before, after, named, basis } = step;
  const { principal, signal } = context;
  const release = isSameRun(before, after) ? basis : await makeRelease(deps, app, step, context);
  if (release === undefined) return {};
  const isNext = release.id !== basis?.id;
  const isScaled = isNext || Object.entries(named).some(([type, count]) => fieldOf(before.counts, type) !== count);
  // What takes the place of a live one gets the rest of its counts by being deployed.
  const isAfterNone = isNext && basis !== undefined && basis.id !== app.status.releaseId;
  const counts = { ...(isAfterNone ? await countsOf(deps, basis, release, signal) : {}), ...named };
  const scaling = { app: app.id, release: release.id, counts, mayLeaveRange: true };
  if (isScaled && Object.keys(counts).length > 0) await scaleFormation(deps, scaling, signal);
  if (release.spec.artifactId === undefined) {
    return { notes: ['it has nothing to run yet: env and processes take effect with the first push'] };
  }
  const { status } = await deps.resources.get(appType, app.id, { signal });
  // One under way is of this release: of another it would have been refused above.
  if (status.deploymentId !== undefined) return {};
  if (status.releaseId === release.id) return {};
  const replaces = app.status.releaseId ?? null;
  const { id } = await startDeployment(
    deps,
    { app: app.id, release: release.id, rollout: {}, replaces },
    { principal, signal },
  );
  return { deploymentId: id };
}

/** What one that was never live was scaled to, of the types that the other has. */
async function countsOf(
  { resources }: Deps,
  { id }: ReleaseResource,
  { spec }: ReleaseResource,
  signal: AbortSignal,
): Promise<Record<string, number>> {
  const formation = await resources.find(formationType, id, { signal });
  const counts = Object.entries(formation?.spec.processes ?? {});
  return Object.fromEntries(counts.filter(([type]) => Object.hasOwn(spec.processes, type)));
}

function isSameRun(before: AppState, after: AppState): boolean {
  const runOf = ({ image, env, processes }: AppState) => ({ image, env, processes });
  return isEqual(runOf(before), runOf(after));
}

async function makeRelease(
  deps: Deps,
  app: AppResource,
  { before, after, basis }: Step,
  context: ApplyContext,
): Promise<ReleaseResource> {
  const { image } = after;
  const isOther = image !== undefined && image !== before.image;
  const artifactId = isOther ? await imageArtifact(deps, image, context.signal) : basis?.spec.artifactId;
  return createRelease(
    deps,
    app,
    {
      ...(artifactId === undefined ? {} : { artifactId }),
      // What a file says is what they hold: that they were to refer to others does not outlive it.
      ...(isEqual(before.env, after.env) ? {} : { env: { ...after.env } }),
      processes: { ...after.processes },
      meta: isOther ? {} : { ...basis?.spec.meta },
      basis: basis?.id ?? null,
    },
    context,
  );
}

async function imageArtifact(deps: Deps, name: string, signal: AbortSignal): Promise<string> {
  const spec = { type: 'image', image: { name }, meta: {} } as const;
  const { id } = await deps.resources.create(artifactType, { id: shortId(), spec }, { signal });
  return id;
}
