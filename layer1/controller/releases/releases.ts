/** Artifacts and releases: made once, never changed. */
import { FlynnError, hasCode } from '@flynn/kit/errors';
import type { Caller } from '@flynn/kit/http-gate';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { shortId } from '@flynn/kit/ids';
import { nameKey, resourceKey } from '@flynn/resource/keys';
import { mergePieces } from '@flynn/resource/piece';
import { compareOf, decodeResource } from '@flynn/resource/record';
import type { z } from 'zod';
import { checkLinks } from '../access/links.ts';
import { checkServices } from '../access/neighbours.ts';
import { actingFor } from '../access/on-behalf.ts';
import type { Askers } from '../access/on-behalf.ts';
import { principalOf } from '../access/principal.ts';
import type { Principal } from '../access/principal.ts';
import { withoutSecrets } from '../access/redaction.ts';
import { checkNames } from '../access/service-names.ts';
import { releases } from '../api.ts';
import { collectArtifactsOf, removeRelease } from '../collection/collection.ts';
import { madeOf } from '../collection/made-of.ts';
import type { OwnBlobs } from '../collection/own-blobs.ts';
import { checkDefaults } from '../processes/check-defaults.ts';
import type { Runnable } from '../processes/compile.ts';
import { parseSchedule } from '../cron/schedule.ts';
import { guardedContent } from '../datastores/guards.ts';
import { checkImage } from '../images/check-image.ts';
import { holdsCounts } from '../deployments/phases.ts';
import { resolveReferences } from './env-references.ts';
import { checkLive, findApp, findLiveApp, forLiveApp, runnableApp } from '../deps.ts';
import type { Deps } from '../deps.ts';
import { isOvertaken, overtaken } from './overtaken.ts';
import { checkPrivileges } from './privileges.ts';
import { pageOf } from '../paging.ts';
import { checkKeptLogins, envsOf } from '../runner-env/kept-logins.ts';
import { appType, artifactType, deploymentType, ownedBy, releaseName, releaseType } from '../resources.ts';
import type { AppResource, ReleaseResource } from '../resources.ts';
import type { Release } from '../model.ts';
import { viewArtifact, viewRelease } from '../views.ts';

/** A rollout of all types fits into one transaction of the store. */
const maxTypes = 20;
const maxAttempts = 10;
/** A transaction holds a hundred operations on any store. */
const readsAtOnce = 100;
const slugRunnerAlias = 'slug-runner';

export function releaseHandlers(deps: Deps, own: OwnBlobs, askers: Askers): Handler[] {
  const { resources, settings } = deps;
  return [
    handle(releases.createArtifact, async (call) => {
      const { body, signal } = call;
      checkImage(body.image, settings.name);
      await own.check(principalOf(call), madeOf(body), signal);
      // The runner knows the layers it built, not which image the cluster runs them on.
      const isOnRunner = 'base' in body.image && body.image.base === slugRunnerAlias;
      const image = 'base' in body.image && isOnRunner ? { ...body.image, base: settings.slugRunnerImage } : body.image;
      return viewArtifact(
        await resources.create(artifactType, { id: shortId(), spec: { ...body, image } }, { signal }),
      );
    }),
    handle(releases.getArtifact, async (call) => {
      const { params, signal } = call;
      await own.checkArtifact(principalOf(call), params.artifact, signal);
      return viewArtifact(await resources.get(artifactType, params.artifact, { signal }));
    }),
    handle(releases.create, async (call) => {
      const { params, body, signal } = call;
      const app = await findLiveApp(deps, params.app, signal);
      if (body.artifactId !== undefined && !(await hasArtifact(deps, app, body.artifactId, signal)))
        await own.checkArtifact(principalOf(call), body.artifactId, signal);
      const principal = await actingFor(deps, askers, principalOf(call), { app, signal });
      return viewRelease(await createRelease(deps, app, body, { principal, signal }));
    }),
    handle(releases.list, async (call) => {
      const { params, signal } = call;
      const app = await findApp(deps, params.app, signal);
      const names = await releaseNames(deps, app.id, signal);
      const page = pageOf(names, call.query, ({ id }) => id);
      const all = await releasesNamed(deps, page, signal);
      const show = canReadSecrets(call, app) ? viewRelease : publicRelease;
      return all.map(show);
    }),
    handle(releases.get, async (call) => {
      const { params, signal } = call;
      const app = await findApp(deps, params.app, signal);
      const release = await findRelease(deps, app, params.release, signal);
      return canReadSecrets(call, app) ? viewRelease(release) : publicRelease(release);
    }),
    handle(releases.remove, async ({ params, signal }) => {
      const release = await forLiveApp(deps, params.app, signal, async (app) => {
        const found = await findRelease(deps, app, params.release, signal);
        await removeRelease(deps, app, found, { signal });
        return found;
      });
      await collectArtifactsOf(deps, [release], { signal });
    }),
  ];
}

function canReadSecrets(call: { caller?: Caller }, { id, spec }: AppResource): boolean {
  return principalOf(call).canReadSecrets({ id, isSystem: spec.isSystem, isDatastore: spec.datastore !== undefined });
}

function publicRelease(release: ReleaseResource): Release {
  return withoutSecrets(viewRelease(release));
}

type NewRelease = z.output<NonNullable<typeof releases.create.body>>;
/** Undefined for the platform itself. */
type Making = { principal: Principal | undefined; signal: AbortSignal };

/**
 * Of what is live, and before that of the newest: one that others made meanwhile goes into it, unless `basis` says which it is. Of
 * a datastore only the platform changes all that there is: `isOfPlatform`.
 */
export async function createRelease(
  deps: Deps,
  app: AppResource,
  input: NewRelease,
  { isOfPlatform = false, principal, signal }: Making & { isOfPlatform?: boolean },
): Promise<ReleaseResource> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      const current = attempt === 1 ? app : await findLiveApp(deps, app.id, signal);
      return await createFrom(deps, current, { ...input, isOfPlatform }, { principal, signal });
    } catch (error) {
      if (!isOvertaken(error) || input.basis !== undefined || attempt >= maxAttempts) throw error;
    }
  }
}

async function createFrom(
  deps: Deps,
  app: AppResource,
  { isOfPlatform, ...asked }: NewRelease & { isOfPlatform: boolean },
  { principal, signal }: Making,
): Promise<ReleaseResource> {
  const { resources } = deps;
  const before = await findBasis(deps, app, signal);
  const isGuarded = !isOfPlatform && before !== undefined;
  const input = isGuarded ? { ...asked, ...guardedContent(app, before.spec, asked) } : asked;
  if (input.basis !== undefined && input.basis !== (before?.id ?? null)) throw overtaken(app.spec.name);
  const isLive = before !== undefined && before.id === app.status.releaseId;
  const isPart = input.env === undefined || input.processes === undefined;
  const isTakenOver = isLive && isPart;
  if (isTakenOver) await checkLasting(deps, app, signal);
  const artifactId = input.artifactId ?? (isLive ? before.spec.artifactId : undefined);
  const artifact = artifactId === undefined ? undefined : await resources.get(artifactType, artifactId, { signal });
  if (artifact?.status.condemnedAt !== undefined) {
    throw new FlynnError(
      'conflict',
      `the artifact ${artifact.id} is being removed, as no release had it: build it again`,
    );
  }
  const processes = input.processes ?? before?.spec.processes ?? {};
  const types = Object.keys(processes);
  if (types.length > maxTypes) {
    throw new FlynnError('invalid', `a release has at most ${maxTypes} process types; this one has ${types.length}`);
  }
  for (const { schedule, timezone } of input.cron ?? []) parseSchedule(schedule, timezone);
  const scripts = input.scripts ?? before?.spec.scripts;
  const links = input.links ?? before?.spec.links ?? [];
  const cron = input.cron ?? before?.spec.cron;
  const references = input.references ?? (input.env === undefined ? before?.spec.references : undefined) ?? {};
  const env = resolveReferences(input.env ?? before?.spec.env ?? {}, references);
  checkPrivileges(app, processes);
  checkKeptLogins(deps.settings, before === undefined ? [] : envsOf(before.spec), envsOf({ env, processes }));
  await checkNeighbours(deps, app, { next: { processes, links }, before }, { principal, signal });
  const id = shortId();
  // Numbering is the app's: its newest number and the release are written together.
  let made: ReleaseResource | undefined;
  const numbered = await resources.updateStatus(
    appType,
    app.id,
    (current) => {
      checkLive(current);
      const { status } = current;
      if (isTakenOver && isOther(status, app.status)) throw beingDeployed(app, status.deploymentId);
      if ((isPart || input.basis !== undefined) && hasOtherBasis(status, app.status)) throw overtaken(app.spec.name);
      return { ...status, lastVersion: status.lastVersion + 1 };
    },
    {
      signal,
      also: (next) => {
        const draft = resources.draft(releaseType, {
          id,
          owner: ownedBy(app.id),
          spec: {
            appId: app.id,
            version: next.status.lastVersion,
            ...(artifactId === undefined ? {} : { artifactId }),
            env,
            ...(Object.keys(references).length === 0 ? {} : { references }),
            processes,
            ...(links.length === 0 ? {} : { links }),
            ...(scripts === undefined ? {} : { scripts }),
            ...(cron === undefined ? {} : { cron }),
            checks: checkDefaults(app.spec),
            meta: input.meta,
          },
        });
        made = draft.resource;
        // A collector that came first has changed it, one that comes later sees this release.
        return mergePieces([draft.piece, artifact === undefined ? {} : { compare: [compareOf(artifact)] }]);
      },
    },
  );
  if (made === undefined) throw new FlynnError('internal', `release ${id} of ${numbered.spec.name} was not made`);
  return made;
}

type Follower = Readonly<{
  next: Pick<ReleaseResource['spec'], 'processes' | 'links'>;
  before: ReleaseResource | undefined;
}>;

/** What of a release touches other apps: what it is called in discovery, what it links that `before` does not. Throws `denied`. */
export async function checkNeighbours(
  deps: Deps,
  app: AppResource,
  { next, before }: Follower,
  { principal, signal }: Making,
): Promise<void> {
  const { processes } = next;
  await checkServices(deps, app, processes, signal);
  // The platform itself takes them over; whether that may be deployed is judged then.
  if (principal !== undefined) await checkNames(deps, app, { processes, principal }, signal);
  await checkLinks(deps, app, { next, before: before?.spec, principal }, signal);
}

/** What the live release has is taken over while none is about to take its place: what that one changes would be taken back. */
async function checkLasting(deps: Deps, app: AppResource, signal: AbortSignal): Promise<void> {
  const { deploymentId } = app.status;
  const deployment = deploymentId && (await deps.resources.find(deploymentType, deploymentId, { signal }));
  if (deployment && holdsCounts(deployment.status)) throw beingDeployed(app, deploymentId);
}

function isOther(now: AppResource['status'], before: AppResource['status']): boolean {
  return now.releaseId !== before.releaseId || (now.deploymentId ?? before.deploymentId) !== before.deploymentId;
}

/** Of what is not live yet, by its number: there is a newer one. */
function hasOtherBasis(now: AppResource['status'], before: AppResource['status']): boolean {
  if (before.releaseId === undefined && now.lastVersion !== before.lastVersion) return true;
  return now.releaseId !== before.releaseId;
}

function beingDeployed({ spec }: AppResource, deploymentId: string | undefined): FlynnError {
  return new FlynnError(
    'conflict',
    `another release of ${spec.name} is being deployed, and what it changes this one would not have: wait for it to end, see flynn deployment`,
    { detail: deploymentId === undefined ? {} : { deploymentId } },
  );
}

/** What the next release and build start from: the live release; before the first deployment, the newest. */
export async function findBasis(
  deps: Deps,
  app: AppResource,
  signal: AbortSignal,
): Promise<ReleaseResource | undefined> {
  if (app.status.releaseId !== undefined) return deps.resources.get(releaseType, app.status.releaseId, { signal });
  const [newest] = await releasesNamed(deps, (await releaseNames(deps, app.id, signal)).slice(0, 1), signal);
  return newest;
}

async function hasArtifact(deps: Deps, app: AppResource, artifactId: string, signal: AbortSignal): Promise<boolean> {
  const made = await releasesNamed(deps, await releaseNames(deps, app.id, signal), signal);
  return made.some(({ spec }) => spec.artifactId === artifactId);
}

type ReleaseName = { id: string; version: number };

/** An app's releases by their names, newest first: what all the other apps released is not read for it. */
async function releaseNames(
  { store }: Pick<Deps, 'store'>,
  appId: string,
  signal: AbortSignal,
): Promise<ReleaseName[]> {
  const prefix = nameKey(releaseType.name, `${appId}/v`);
  const { entries } = await store.list(prefix, { signal });
  return entries
    .map(({ key, value }) => ({ id: value, version: Number(key.slice(prefix.length)) }))
    .sort((a, b) => b.version - a.version);
}

/** In their order. One that went with its app in between is left out. */
async function releasesNamed(
  { store }: Pick<Deps, 'store'>,
  names: readonly ReleaseName[],
  signal: AbortSignal,
): Promise<ReleaseResource[]> {
  const found: ReleaseResource[] = [];
  for (let at = 0; at < names.length; at += readsAtOnce) {
    const then = names.slice(at, at + readsAtOnce).map(({ id }) => ({ get: resourceKey(releaseType.name, id) }));
    const { reads } = await store.transact({ then }, { signal });
    found.push(...reads.flatMap(([entry]) => (entry === undefined ? [] : [decodeResource(releaseType, entry)])));
  }
  return found;
}

/** By id, or by number as `v3`; only the app's own. */
export async function findRelease(
  deps: Deps,
  app: AppResource,
  nameOrId: string,
  signal?: AbortSignal,
): Promise<ReleaseResource> {
  const number = /^v(\d{1,9})$/.exec(nameOrId)?.[1];
  const options = signal === undefined ? {} : { signal };
  try {
    const name = number === undefined ? nameOrId : releaseName(app.id, Number(number));
    const release = await deps.resources.lookup(releaseType, name, options);
    if (release.spec.appId === app.id) return release;
  } catch (error) {
    if (!hasCode(error, 'not_found')) throw error;
  }
  throw new FlynnError(
    'not_found',
    `${app.spec.name} has no release ${nameOrId}; list them with: flynn release -a ${app.spec.name}`,
  );
}

/** What is needed to run something of a release; undefined for one without an artifact. */
export async function runnableOf(
  deps: Pick<Deps, 'resources'>,
  app: AppResource,
  release: ReleaseResource,
  signal?: AbortSignal,
): Promise<Runnable | undefined> {
  if (release.spec.artifactId === undefined) return undefined;
  const artifact = await deps.resources.get(
    artifactType,
    release.spec.artifactId,
    signal === undefined ? {} : { signal },
  );
  return {
    app: runnableApp(app),
    release: {
      id: release.id,
      env: release.spec.env,
      processes: release.spec.processes,
      ...(release.spec.links === undefined ? {} : { links: release.spec.links }),
      ...(release.spec.checks === undefined ? {} : { checks: release.spec.checks }),
    },
    artifact: artifact.spec,
  };
}
