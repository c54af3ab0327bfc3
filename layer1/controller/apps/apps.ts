/** Apps: a name and what hangs on it. Making one makes its default route, deleting one waits for its jobs to stop. */
import { randomInt } from 'node:crypto';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { shortId } from '@flynn/kit/ids';
import { withDeadline } from '@flynn/kit/retry';
import type { ResponseOf } from '@flynn/kit/routes';
import { resourceKey } from '@flynn/resource/keys';
import { principalOf } from '../access/principal.ts';
import type { Principal } from '../access/principal.ts';
import { checkPartUntaken } from '../access/neighbours.ts';
import { turnFor } from '../access/name-turns.ts';
import { checkDefaultName } from '../access/service-names.ts';
import { grantId, grantType } from '../access/resources.ts';
import { isAtLeast } from '../access/roles.ts';
import { mergePieces } from '@flynn/resource/piece';
import { apps } from '../api.ts';
import { changedMeta } from './meta.ts';
import { generateAppName } from './generated-name.ts';
import { appNames, appsNamed } from './names.ts';
import { serviceNameOf } from '../processes/compile.ts';
import { changedRollout } from '../deployments/settings.ts';
import { Decoded } from '../mirrors/decoded.ts';
import { findApp, findLiveApp } from '../deps.ts';
import type { Deps } from '../deps.ts';
import { jobsOfApp } from '../jobs/views.ts';
import { cellOf } from '../jobs/jobs.ts';
import { checkReview, reviewPieces, withExpiry } from './review-apps.ts';
import { parentMeta } from './review-meta.ts';
import { checkBuildPlace } from '../builds/place.ts';
import { checkOneOffLimits } from '../jobs/one-off-limits.ts';
import { pageOf } from '../paging.ts';
import { refuseRemoval } from '../datastores/guards.ts';
import { onlyOf } from '../providers/leaving.ts';
import { resourceType } from '../providers/types.ts';
import { isDispensable } from '../formations/counts.ts';
import { copiedHttp } from '../routes/copied-access.ts';
import type { HttpSettings } from '../routes/settings.ts';
import { appFinalizer, appType, ownedBy, releaseType, routeType } from '../resources.ts';
import type { AppResource, ReleaseResource } from '../resources.ts';
import { viewApp } from '../views.ts';
import { findVolumes, viewOf } from '../volumes/volumes.ts';

export const defaultDeployTimeoutMs = 120_000;
const maxAttempts = 16;
/** Less than the 30 s after which the router takes a backend for dead: what it would say then says nothing. */
const deletionDeadlineMs = 25_000;

export function appHandlers(deps: Deps): Handler[] {
  const { resources } = deps;
  const decoded = new Decoded(appType);
  return [
    handle(apps.create, async (call) => {
      const { body, signal } = call;
      const principal = principalOf(call);
      if (body.isSystem && !principal.isAdmin) {
        throw new FlynnError('denied', 'only an admin of the cluster adds apps to the platform');
      }
      const { reviewMs, ...asked } = body;
      const meta = withExpiry(asked.meta, { reviewMs }, deps.now());
      return viewApp(await createApp(deps, { ...asked, meta, principal }, signal));
    }),
    handle(apps.list, async (call) => {
      const principal = principalOf(call);
      const names = (await appNames(deps, call.signal)).filter(({ id }) => principal.canSee({ id, isSystem: false }));
      const found = await appsNamed(
        deps,
        decoded,
        pageOf(names, call.query, ({ id }) => id),
        call.signal,
      );
      return found.filter(({ id, spec }) => principal.canSee({ id, isSystem: spec.isSystem })).map(viewApp);
    }),
    handle(apps.get, async ({ params, signal }) => viewApp(await findApp(deps, params.app, signal))),
    handle(apps.update, async (call) => {
      const { params, body, signal } = call;
      const principal = principalOf(call);
      const { id } = await findLiveApp(deps, params.app, signal);
      const changed = await resources.update(
        appType,
        id,
        ({ spec }) => {
          const meta = withExpiry(changedMeta(body.meta ?? spec.meta, body.metaChange ?? {}), body, deps.now());
          checkReview({ id, spec }, meta, principal);
          return {
            ...spec,
            meta,
            deployTimeoutMs: body.deployTimeoutMs ?? spec.deployTimeoutMs,
            rollout: changedRollout(spec.rollout, body.rollout ?? {}),
          };
        },
        { signal },
      );
      return viewApp(changed);
    }),
    handle(apps.remove, async ({ params, query, signal }) =>
      removeApp(deps, await findApp(deps, params.app, signal), { removesVolumes: query.volumes === true, signal }),
    ),
  ];
}

type NewApp = {
  name?: string | undefined;
  meta: Record<string, string>;
  isSystem: boolean;
  /** The app whose access it copies; a review app does that of its app anyway. */
  accessOf?: string | undefined;
  /** Who makes it. */
  principal: Principal;
};

/** Who makes an app is its admin, also with a role on the cluster that is less or is taken away later. */
function ownerOf({ userId, clusterLevel }: Principal): { ownerId?: string } {
  return userId === undefined || isAtLeast(clusterLevel, 'admin') ? {} : { ownerId: userId };
}

export async function createApp(deps: Deps, input: NewApp, signal: AbortSignal): Promise<AppResource> {
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await createNamed(deps, { ...input, name: input.name ?? generateAppName(randomInt) }, signal);
    } catch (error) {
      // A made-up name may be taken; a chosen one is for the chooser to change.
      if (input.name !== undefined || attempt >= 5 || !hasCode(error, 'conflict')) throw error;
    }
  }
}

async function createNamed(deps: Deps, input: NewApp & { name: string }, signal: AbortSignal): Promise<AppResource> {
  const { resources, settings } = deps;
  const id = shortId();
  const domain = `${input.name}.${settings.domain}`;
  checkOneOffLimits(input.meta);
  checkBuildPlace(input.meta);
  if (isDispensable(input)) await checkPartUntaken(deps, { name: input.name, host: domain }, signal);
  const service = serviceNameOf(input.name, 'web');
  const app = resources.draft(appType, {
    id,
    spec: {
      name: input.name,
      meta: input.meta,
      isSystem: input.isSystem,
      deployTimeoutMs: defaultDeployTimeoutMs,
      // The platform's are the cluster's own, under the names they have always had.
      hasOwnVolumes: !input.isSystem,
    },
    finalizers: [appFinalizer],
  });
  const route = resources.draft(routeType, {
    id: shortId(),
    owner: ownedBy(id),
    spec: {
      appId: id,
      type: 'http',
      domain,
      path: '/',
      service,
      ...(await firstRouteHttp(deps, input, signal)),
    },
  });
  const { ownerId } = ownerOf(input.principal);
  const grants =
    ownerId === undefined
      ? []
      : [
          resources.draft(grantType, {
            id: grantId(id, 'user', ownerId),
            owner: ownedBy(id),
            spec: { appId: id, kind: 'user', subjectId: ownerId, role: 'admin' },
          }),
        ];
  for (let attempt = 1; ; attempt += 1) {
    const turn = input.isSystem ? {} : await turnFor(deps, [service], signal);
    if (!input.isSystem) await checkDefaultName(deps, input.name, signal);
    const also = mergePieces([turn, ...(await reviewPieces(deps, input.meta, signal))]);
    try {
      const revision = await resources.createMany([app, route, ...grants], { signal, also });
      return { ...app.resource, revision };
    } catch (error) {
      if (!hasCode(error, 'conflict')) throw error;
      // Another review app of the same app was made at this moment: there may be too many now. Or somebody took such a name.
      const isOvertaken = also.compare?.some(({ key }) => key === error.detail['key']) === true;
      if (isOvertaken && attempt < maxAttempts) continue;
      throw new FlynnError(
        'conflict',
        `the name ${input.name} is taken: choose another, or leave it out to have one made up`,
        { cause: error },
      );
    }
  }
}

/** Of a review app of nothing that is told elsewhere. */
async function firstRouteHttp(
  deps: Deps,
  { meta, accessOf, principal }: NewApp,
  signal: AbortSignal,
): Promise<{ http?: HttpSettings }> {
  const parentId = meta[parentMeta];
  const like =
    parentId !== undefined
      ? await deps.resources.find(appType, parentId, { signal })
      : accessOf === undefined
        ? undefined
        : await findApp(deps, accessOf, signal);
  return like === undefined ? {} : copiedHttp(deps, like, principal, signal);
}

/** Throws `denied`. */
export function checkRemoval(app: AppResource): void {
  const { isSystem, name } = app.spec;
  if (isSystem && !isDispensable(app.spec)) {
    throw new FlynnError('denied', `${name} is part of the platform: it cannot be deleted`);
  }
  refuseRemoval(app);
}

/** A datastore whose resource was forgotten goes like any app. */
async function isForgotten({ resources }: Deps, { spec }: AppResource, signal: AbortSignal): Promise<boolean> {
  const { datastore } = spec;
  return (
    datastore !== undefined && (await resources.find(resourceType, datastore.resourceId, { signal })) === undefined
  );
}

/** Marks the app, and waits for the worker to have stopped and removed everything. */
async function removeApp(
  deps: Deps,
  app: AppResource,
  { removesVolumes, signal }: { removesVolumes: boolean; signal: AbortSignal },
): Promise<ResponseOf<typeof apps.remove>> {
  const { resources, store, cell } = deps;
  const { name } = app.spec;
  if (!(await isForgotten(deps, app, signal))) checkRemoval(app);
  const owner = ownedBy(app.id);
  const [routes, releases] = await Promise.all([
    resources.list(routeType, { owner, signal }),
    resources.list(releaseType, { owner, signal }),
  ]);
  const artifacts = await ownArtifacts(deps, app.id, releases, signal);
  const provided = await onlyOf(deps, app.id, signal);
  const jobs = jobsOfApp(app.id, cellOf(cell), { all: false, nowMs: deps.now() });
  const before = removesVolumes ? await findVolumes(deps, { appId: app.id, signal }) : undefined;
  // Also where it is not to be: somebody may have begun to delete it with them, and have thought better of it.
  const change = ({ spec }: AppResource) => ({ spec: { ...spec, removesVolumes } });
  await resources.delete(appType, app.id, { signal, change });
  const counts = {
    routes: routes.length,
    releases: releases.length,
    jobs: jobs.length,
    artifacts,
    resources: provided.length,
  };
  const limited = withDeadline(deletionDeadlineMs, signal);
  const key = resourceKey(appType.name, app.id);
  for await (const { changes } of store.watch(key, { after: app.revision, signal: limited })) {
    if (changes.some((change) => change.type === 'delete' && change.key === key)) {
      const { volumes, unasked } = await findVolumes(deps, { appId: app.id, signal });
      const gone = Math.max(0, (before?.volumes.length ?? volumes.length) - volumes.length);
      return { ...counts, volumes: gone, left: { volumes: volumes.map(viewOf), unasked } };
    }
  }
  signal.throwIfAborted();
  const going = await resources.find(appType, app.id, { signal });
  const why = going?.waitingFor[appFinalizer] ?? 'its jobs to stop';
  throw new FlynnError(
    'timeout',
    `${name} is marked for deletion, but not gone within ${deletionDeadlineMs / 1000} s: it goes on by itself (flynn ps -a ${name}), and waits for ${why}`,
    { detail: counts },
  );
}

/** How many artifacts no other app's releases have: these go with it. */
async function ownArtifacts(
  { resources }: Deps,
  appId: string,
  own: readonly ReleaseResource[],
  signal: AbortSignal,
): Promise<number> {
  const all = await resources.list(releaseType, { signal });
  const elsewhere = new Set(all.filter(({ spec }) => spec.appId !== appId).map(({ spec }) => spec.artifactId));
  return new Set(own.flatMap(({ spec }) => (elsewhere.has(spec.artifactId) ? [] : (spec.artifactId ?? [])))).size;
}
