/** The one interface of all schedulers, and the table of them. */
import type { Evaluation, Workload } from '../cell.ts';
import { makePlan } from '../plan.ts';
import type { Plan, PlanContext } from '../plan.ts';
import { rankService } from '../rank.ts';
import { reconcileRemoved } from '../reconcile.ts';
import type { Cell } from '../snapshot.ts';
import { ephemeralScheduler } from './ephemeral.ts';
import { inputOf } from './input.ts';
import { omniScheduler } from './omni.ts';
import { serviceScheduler } from './service.ts';

/**
 * Plans what an evaluation asks for. Pure: the same cell and context give the same plan, and nothing is waited for. The
 * plan may place less than is wanted (the outcome is then `blocked` and says why), never more than fits in the rooms.
 */
export interface Scheduler {
  schedule(evaluation: Evaluation, workload: Workload, cell: Cell, context: PlanContext): Plan;
}

/** Which scheduler plans for a kind of workload. */
export const schedulers: Readonly<Record<Workload['kind'], Scheduler>> = {
  service: serviceScheduler,
  omni: omniScheduler,
  ephemeral: ephemeralScheduler,
};

/** The plan for one evaluation; a workload that is gone needs no scheduler of its own. */
export function schedule(evaluation: Evaluation, cell: Cell, context: PlanContext): Plan {
  const workload = cell.workloads.get(evaluation.workloadId)?.value;
  if (workload !== undefined) return schedulers[workload.kind].schedule(evaluation, workload, cell, context);
  const decision = reconcileRemoved(inputOf(evaluation.workloadId, cell, context));
  return makePlan({ evaluation, workload, decision, rank: rankService }, cell, context);
}
