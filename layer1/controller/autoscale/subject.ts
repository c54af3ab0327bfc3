/** What there is of an app's type that is scaled by itself, and whether its count may be changed now. */
import { workloadIdOf } from '../processes/compile.ts';
import { holdsCounts } from '../deployments/phases.ts';
import type { Deps } from '../deps.ts';
import { fieldOf } from '../generic/difference.ts';
import type { Process } from '../processes/process.ts';
import { appType, formationType, releaseType } from '../resources.ts';
import type { AppResource, FormationResource, ReleaseResource } from '../resources.ts';
import type { TypeJobs } from './jobs.ts';
import type { Status } from './model.ts';
import type { AutoscaleResource } from './resource.ts';
import { unscalable } from './rules.ts';

export type Held = Readonly<Pick<NonNullable<Status['held']>, 'reason' | 'why'>>;

export type Subject = Readonly<{
  setting: AutoscaleResource;
  app: AppResource;
  release: ReleaseResource;
  process: Process;
  formation: FormationResource;
  count: number;
  workloadId: string;
}>;

/** `gone`: its app is not there any more, and what is said of it may go too. */
export type Found =
  | Readonly<{ is: 'gone' }>
  | Readonly<{ is: 'held'; held: Held }>
  | Readonly<{ is: 'there'; subject: Subject }>;

const held = (reason: Held['reason'], why: string): Found => ({ is: 'held', held: { reason, why } });

export async function subjectOf(deps: Deps, setting: AutoscaleResource, signal: AbortSignal): Promise<Found> {
  const { resources, deployments } = deps;
  const { appId, type } = setting.spec;
  const app = await resources.find(appType, appId, { signal });
  if (app === undefined) return { is: 'gone' };
  const { releaseId, deploymentId } = app.status;
  if (app.deletingSince !== undefined) return held('absent', 'the app is being deleted');
  if (releaseId === undefined) return held('absent', 'the app has no live release yet');
  // One that is not in the mirror yet has just begun.
  const deployment = deploymentId === undefined ? undefined : deployments.snapshot.entries.get(deploymentId)?.value;
  if (deploymentId !== undefined && (deployment === undefined || holdsCounts(deployment.status))) {
    return held('deploying', 'a deployment is under way: counts are its to change until its release is live');
  }
  const [release, formation] = await Promise.all([
    resources.find(releaseType, releaseId, { signal }),
    resources.find(formationType, releaseId, { signal }),
  ]);
  const process = release === undefined ? undefined : fieldOf(release.spec.processes, type);
  if (release === undefined || process === undefined) {
    return held('absent', `the live release has no process type ${type}`);
  }
  const why = unscalable(type, process, setting.spec);
  if (why !== undefined) return held('absent', why);
  const count = fieldOf(formation?.spec.processes ?? {}, type) ?? 0;
  if (formation === undefined || count === 0) {
    return held('off', `its count is 0: flynn -a ${app.spec.name} scale ${type}=${setting.spec.min} has it go on`);
  }
  const workloadId = workloadIdOf(app.id, { ...release.spec, id: release.id }, type);
  return { is: 'there', subject: { setting, app, release, process, formation, count, workloadId } };
}

/** What keeps its count as it is, if something does but the load. `silent`: who did not tell what it knows, and why. */
export function heldBy(seen: {
  isFull: boolean;
  jobs: Pick<TypeJobs, 'uncertain' | 'waiting' | 'whyWaiting'>;
  silent: readonly (readonly [who: string, why: string])[];
  /** There is a route to it, if its requests matter. */
  isLedTo: boolean;
  isMeasuring: boolean;
  /** Why there may be any more to do than was seen, if so. */
  doubt: string | undefined;
}): Held | undefined {
  const { isFull, jobs, silent, isLedTo, isMeasuring, doubt } = seen;
  if (isFull) {
    const why = jobs.whyWaiting === undefined ? '' : `: ${jobs.whyWaiting}`;
    const what = `more are wanted, and ${jobs.waiting} of those there are to be wait for a host`;
    return { reason: 'full', why: `${what}${why}` };
  }
  const [first] = silent;
  if (first !== undefined) {
    const [who, why] = first;
    const more = silent.length === 1 ? '' : `, and ${silent.length - 1} more`;
    return { reason: 'blind', why: `${who} did not tell${more}: ${why}; there are no fewer jobs until then` };
  }
  if (!isLedTo) return { reason: 'blind', why: 'no route leads to it, so its requests are not known: flynn route' };
  if (jobs.uncertain > 0) {
    const what = `${jobs.uncertain} of its jobs are on hosts that are away`;
    return { reason: 'blind', why: `${what}: there are no fewer jobs until that ends` };
  }
  if (doubt !== undefined) return { reason: 'blind', why: `${doubt}: there are no fewer jobs until that ends` };
  return isMeasuring ? { reason: 'measuring', why: 'half of its window has not been seen yet' } : undefined;
}
