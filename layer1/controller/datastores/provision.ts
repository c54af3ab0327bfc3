/**
 * A datastore for a resource: an app of its own, with a release of the appliance's image, rolled out. Each call takes what there
 * is as it is and goes on from there; nothing is made twice.
 */
import type { Appliance } from '@flynn/appliances/appliance';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { shortId } from '@flynn/kit/ids';
import type { Compare } from '@flynn/store/store';
import { reasonsOf, statusesOfApp, takesJobs, valuesOf } from '../mirrors/cell-view.ts';
import { isOpenRestore } from '../datastore-backups/plan.ts';
import { backupPlanType } from '../datastore-backups/types.ts';
import { startDeployment } from '../deployments/deployments.ts';
import { progressOf, upJobs } from '../deployments/progress.ts';
import type { Deps } from '../deps.ts';
import { scaleFormation } from '../formations/formations.ts';
import { createRelease, findBasis } from '../releases/releases.ts';
import { appFinalizer, appType, artifactType, deploymentType, formationType, ownedBy } from '../resources.ts';
import type { AppResource, DeploymentResource, ReleaseResource } from '../resources.ts';
import {
  memberProcess,
  newSecrets,
  renewedProcess,
  roleService,
  servedOf,
  variablesOf,
  wantedOf,
} from './datastore.ts';
import type { Origin } from './datastore.ts';
import { datastoreName, maxNames } from './names.ts';
import { fill } from './origin.ts';

/** Its members may copy for long before they are up; what cannot start at all is known by its crashes. */
const deployTimeoutMs = 15 * 60_000;
/** How long it stays with an image when it could not go over to another. */
const afterFailureMs = 60 * 60_000;

type Options = Readonly<{ signal: AbortSignal; epoch?: Compare }>;
type Asked = Readonly<{
  id: string;
  config: unknown;
  apps: readonly { appId: string; isReplacing: boolean }[];
  failures: number;
}>;

export type Made =
  | Readonly<{ is: 'made'; id: string; env: Record<string, string>; services: string[] }>
  /** `what` it waits for. */
  | Readonly<{ is: 'pending'; what: string }>;

/** Throws `invalid` for what is not to be had, `unavailable` where its members do not start: told `failures` times before. */
export async function makeDatastore(deps: Deps, appliance: Appliance, asked: Asked, options: Options): Promise<Made> {
  const { signal } = options;
  const found = await datastoreOf(deps, asked.id, signal);
  if (found?.deletingSince !== undefined) return { is: 'pending', what: `${found.spec.name} to be gone` };
  const wanted = wantedOf(appliance, asked.config, hostsOf(deps));
  const image = imageOf(deps, appliance);
  if (found === undefined) await checkVariables(deps, appliance, asked, signal);
  const app = found ?? (await createApp(deps, appliance, { ...asked, origin: wanted.origin }, options));
  const release =
    (await findBasis(deps, app, signal)) ??
    (await createRelease(
      deps,
      app,
      {
        artifactId: await artifactOf(deps, image, signal),
        env: { ...wanted.env, ...newSecrets(appliance) },
        processes: { [appliance.name]: memberProcess(appliance, app.spec.name, wanted) },
        meta: {},
      },
      { principal: undefined, signal },
    ));
  const { deploymentId, releaseId } = app.status;
  if (deploymentId !== undefined) return { is: 'pending', what: await progressText(deps, app, deploymentId, signal) };
  if (releaseId === undefined) return begin(deps, appliance, { app, release, members: wanted.members }, asked, signal);
  const leading = roleService(app.spec.name, appliance.leadingRole);
  if (!(await isServed(deps, leading, signal))) return { is: 'pending', what: `${leading} to be announced` };
  const filling = wanted.origin === undefined ? undefined : await fill(deps, app, wanted.origin, options);
  if (filling !== undefined) return { is: 'pending', what: filling };
  const env = variablesOf(appliance, app.spec.name, appliance.logins.first(release.spec.env));
  return { is: 'made', id: app.id, env, services: servedOf(appliance, app.spec.name) };
}

/** Before anything is made: an app that has such variables already does not get it unless they are to be replaced. */
async function checkVariables(deps: Deps, appliance: Appliance, { apps }: Asked, signal: AbortSignal): Promise<void> {
  const names = Object.keys(variablesOf(appliance, '', { name: '', password: '' }));
  for (const { appId, isReplacing } of apps) {
    const app = isReplacing ? undefined : await deps.resources.find(appType, appId, { signal });
    const env = app === undefined ? {} : ((await findBasis(deps, app, signal))?.spec.env ?? {});
    const taken = names.filter((name) => env[name] !== undefined);
    if (app === undefined || taken.length === 0) continue;
    throw new FlynnError(
      'invalid',
      `${app.spec.name} has ${taken.join(', ')} already: unset them, or ask for them to be replaced`,
    );
  }
}

/** Discovery that is away says nothing yet. */
async function isServed(deps: Deps, service: string, signal: AbortSignal): Promise<boolean> {
  try {
    return await deps.isServed(service, signal);
  } catch (error) {
    if (!hasCode(error, 'unavailable', 'timeout')) throw error;
    return false;
  }
}

async function begin(
  deps: Deps,
  appliance: Appliance,
  { app, release, members }: { app: AppResource; release: ReleaseResource; members: number },
  { failures }: Asked,
  signal: AbortSignal,
): Promise<Made> {
  const all = await deps.resources.list(deploymentType, { owner: ownedBy(app.id), signal });
  const failed = all.filter(({ status }) => status.state === 'failed');
  if (failed.length > failures)
    throw startFailure(app, failed.toSorted((a, b) => (a.createdAt < b.createdAt ? 1 : -1))[0]);
  const prepared = await deps.resources.find(formationType, release.id, { signal });
  if (prepared === undefined) {
    const counts = { [appliance.name]: members };
    await scaleFormation(deps, { app: app.id, release: release.id, counts }, signal);
  }
  await startDeployment(
    deps,
    { app: app.id, release: release.id, rollout: {}, replaces: null },
    { principal: undefined, signal },
  );
  return { is: 'pending', what: `${app.spec.name} to start` };
}

function startFailure(app: AppResource, last: DeploymentResource | undefined): FlynnError {
  const { error = 'no reason was given', failedJob } = last?.status ?? {};
  const lines = failedJob?.lines.slice(-3).join(' | ') ?? '';
  const said = lines === '' ? '' : `, saying: ${lines}`;
  return new FlynnError('unavailable', `${app.spec.name} did not start: ${error}${said}`);
}

async function progressText(deps: Deps, app: AppResource, id: string, signal: AbortSignal): Promise<string> {
  const deployment = await deps.resources.find(deploymentType, id, { signal });
  const types = deployment === undefined ? [] : Object.values(progressOf(deployment, deps.cell));
  const wanted = types.reduce((sum, one) => sum + one.wanted, 0);
  const up = types.reduce((sum, one) => sum + one.up, 0);
  const reason = [...reasonsOf(deps.cell)].find(([workloadId]) => workloadId.startsWith(`${app.id}-`))?.[1];
  return `${app.spec.name} to be up: ${up} of ${wanted} members${reason === undefined ? '' : ` (${reason})`}`;
}

/** What runs is of this version's image; with another it is replaced, one member after the other. Whether there is more to do. */
export async function keepCurrent(
  deps: Deps,
  appliance: Appliance,
  appId: string,
  signal: AbortSignal,
): Promise<boolean> {
  const app = await deps.resources.find(appType, appId, { signal });
  const releaseId = app?.status.releaseId;
  if (app === undefined || app.deletingSince !== undefined || releaseId === undefined) return false;
  const release = await findBasis(deps, app, signal);
  if (release?.spec.artifactId === undefined) return false;
  const { spec } = await deps.resources.get(artifactType, release.spec.artifactId, { signal });
  const image = imageOf(deps, appliance);
  if ('name' in spec.image && spec.image.name === image) return false;
  if (app.status.deploymentId !== undefined || !(await mayMove(deps, app, releaseId, signal))) return true;
  const artifactId = await artifactOf(deps, image, signal);
  const { name } = appliance;
  const before = release.spec.processes[name];
  const own = before === undefined ? {} : { [name]: renewedProcess(appliance, app.spec.name, before) };
  const processes = { ...release.spec.processes, ...own };
  const next = await createRelease(
    deps,
    app,
    { artifactId, processes, meta: { ...release.spec.meta }, basis: release.id },
    { isOfPlatform: true, principal: undefined, signal },
  );
  await startDeployment(
    deps,
    { app: appId, release: next.id, rollout: {}, replaces: releaseId },
    { principal: undefined, signal },
  );
  deps.log.info({ app: app.spec.name, image }, 'a datastore goes over to another image');
  return true;
}

/**
 * One that is not whole, because a host is away say, or that has just failed to go over, stays as it is for now; so does one into
 * which something is put back: that would be cut.
 */
async function mayMove(deps: Deps, app: AppResource, releaseId: string, signal: AbortSignal): Promise<boolean> {
  const plan = await deps.resources.find(backupPlanType, app.id, { signal });
  if (isOpenRestore(plan?.status.restore)) return false;
  const formation = await deps.resources.find(formationType, releaseId, { signal });
  const statuses = statusesOfApp(deps.cell, app.id);
  const isWhole = Object.entries(formation?.spec.processes ?? {}).every(
    ([type, count]) => upJobs(statuses, releaseId, type).length >= count,
  );
  if (!isWhole) return false;
  const all = await deps.resources.list(deploymentType, { owner: ownedBy(app.id), signal });
  return !all.some(
    ({ status: { state, endedAt } }) =>
      state === 'failed' && endedAt !== undefined && deps.now() - Date.parse(endedAt) < afterFailureMs,
  );
}

/** With all that is in it. Undefined once nothing is left, else what it waits for. */
export async function removeDatastore(deps: Deps, resourceId: string, options: Options): Promise<string | undefined> {
  const { signal } = options;
  const guarded = { signal, ...alsoOf(options) };
  const app = await datastoreOf(deps, resourceId, signal);
  if (app === undefined) return undefined;
  if (app.deletingSince === undefined) {
    const change = ({ spec }: AppResource) => ({ spec: { ...spec, removesVolumes: true } });
    await deps.resources.delete(appType, app.id, { ...guarded, expectUid: app.uid, change });
  }
  const what = Object.values(app.waitingFor)[0];
  return `${app.spec.name} to be gone${what === undefined ? '' : `, which waits for ${what}`}`;
}

async function datastoreOf(
  { resources }: Pick<Deps, 'resources'>,
  resourceId: string,
  signal: AbortSignal,
): Promise<AppResource | undefined> {
  const [app] = await resources.list(appType, {
    signal,
    where: ({ spec }) => spec.datastore?.resourceId === resourceId,
  });
  return app;
}

async function createApp(
  deps: Deps,
  appliance: Appliance,
  { id: resourceId, apps, origin }: Asked & Readonly<{ origin: Origin | undefined }>,
  { signal, ...guard }: Options,
): Promise<AppResource> {
  const { resources } = deps;
  const [first] = apps;
  const owner = first === undefined ? undefined : await resources.find(appType, first.appId, { signal });
  const source = origin === undefined ? undefined : await datastoreOf(deps, origin.from, signal);
  for (let number = 1; ; number += 1) {
    const { resource, piece } = resources.draft(appType, {
      id: shortId(),
      spec: {
        name: datastoreName(appliance.name, { owner: owner?.spec.name, source: source?.spec.name }, number),
        meta: {},
        isSystem: false,
        deployTimeoutMs,
        hasOwnVolumes: true,
        datastore: { appliance: appliance.name, resourceId },
      },
      finalizers: [appFinalizer],
    });
    try {
      const revision = await resources.commit([piece, alsoOf(guard).also?.() ?? {}], { signal });
      return { ...resource, revision };
    } catch (error) {
      if (!hasCode(error, 'conflict') || number >= maxNames) throw error;
    }
  }
}

async function artifactOf({ resources }: Deps, image: string, signal: AbortSignal): Promise<string> {
  const spec = { type: 'image' as const, image: { name: image }, meta: {} };
  const { id } = await resources.create(artifactType, { id: shortId(), spec }, { signal });
  return id;
}

function imageOf({ settings }: Pick<Deps, 'settings'>, { name }: Appliance): string {
  const image = settings.applianceImages?.[name];
  if (image !== undefined) return image;
  throw new FlynnError('unavailable', `this cluster has no image of ${name}`);
}

/** Those that take jobs. */
function hostsOf({ cell }: Pick<Deps, 'cell'>): number {
  return valuesOf(cell.hosts).filter((host) => takesJobs(cell, host)).length;
}

function alsoOf({ epoch }: Pick<Options, 'epoch'>): { also?: () => { compare: Compare[] } } {
  return epoch === undefined ? {} : { also: () => ({ compare: [epoch] }) };
}
