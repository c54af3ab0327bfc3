/**
 * Before jobs go, every router has those that take their place, and what is said to be live all of them have: their word is asked
 * for, and waited for so long.
 */
import { stayingStatuses } from '../mirrors/cell-view.ts';
import { compileWorkload } from '../processes/compile.ts';
import type { Deps } from '../deps.ts';
import { upJobs } from './progress.ts';
import type { RolloutStep } from './rollout.ts';
import { workloadIds } from './world.ts';
import type { Side, World } from './world.ts';

/** A router that is cut off keeps nobody from deploying. */
const firstWaitMs = 5_000;
/** Once it was waited for in vain. */
const nextWaitMs = 1_000;

type Heard = { jobs: ReadonlySet<string>; isPatient: boolean };
type Taking = Exclude<RolloutStep, { do: 'wait' }>;

/** Of one worker. The next one asks again: that takes a moment, and nothing is lost. */
export class RoutersWord {
  readonly #heard = new Map<string, Heard>();

  forget(deploymentId: string): void {
    this.#heard.delete(deploymentId);
  }

  /** `given`: nothing goes with this step, or what replaces it was said to be everywhere, or was waited for long enough. */
  async await(deps: Deps, world: World, step: Taking, signal: AbortSignal): Promise<'given' | 'waited'> {
    const { id } = world.deployment;
    const staying = stayingSide(world, step);
    if (staying === undefined) return 'given';
    const services = instancesOf(deps, world, staying);
    const { jobs, isPatient } = this.#heard.get(id) ?? { jobs: new Set<string>(), isPatient: true };
    const asked = services.flatMap(({ service, up }) => up.map((job) => `${service}/${job}`));
    if (asked.every((one) => jobs.has(one))) return 'given';
    const deadlineMs = isPatient ? firstWaitMs : nextWaitMs;
    const missing = await deps.routers.missing({ services }, { deadlineMs, signal });
    if (missing.length > 0) {
      const why = 'these routers did not say that they have the new jobs: going on without their word';
      deps.log.warn({ deployment: id, routers: missing }, why);
    }
    this.#heard.set(id, { jobs: new Set([...jobs, ...asked]), isPatient: isPatient && missing.length === 0 });
    return 'waited';
  }
}

/** Whose jobs are to answer for those that go, or from now on; undefined if there are none. */
function stayingSide({ app, old, next, workloads, deployment }: World, step: Taking): Side | undefined {
  switch (step.do) {
    case 'scale': {
      const isReduced = [...workloadIds(app.id, old)].some(([type, id]) => {
        const count = step.oldCounts[type];
        return count !== undefined && count < (workloads.get(id)?.count ?? 0);
      });
      return isReduced ? next : undefined;
    }
    case 'switch':
    case 'complete':
      return next;
    case 'fail':
      return deployment.status.state === 'rolling_back' ? old : undefined;
    case 'begin':
    case 'hold':
    case 'promote':
    case 'roll_back':
      return undefined;
    default:
      return step satisfies never;
  }
}

/** Where its jobs that are up are announced. */
function instancesOf(
  deps: Deps,
  { app }: World,
  { runnable, types, releaseId }: Side,
): { service: string; up: string[] }[] {
  if (runnable === undefined) return [];
  const statuses = stayingStatuses(deps.cell, app.id);
  return types.flatMap((type) => {
    const process = runnable.release.processes[type];
    const up = upJobs(statuses, releaseId, type).map(({ id }) => id);
    if (process === undefined || up.length === 0) return [];
    // Not its roles: none of its jobs need have one.
    const { ports } = compileWorkload(runnable, type, process, 0).template;
    return [...new Set(ports.flatMap(({ service }) => service?.name ?? []))].map((service) => ({ service, up }));
  });
}
