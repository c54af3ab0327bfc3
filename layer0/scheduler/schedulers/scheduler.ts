/** The one interface of all schedulers, and the table of them. */
import type { Workload } from '../cell.ts';
import type { Evaluation } from '../evaluation.ts';
import type { Cell } from '../cell-view.ts';
import { advance } from '../evaluations.ts';
import { makePlan } from '../place.ts';
import type { Plan, PlanContext } from '../plan.ts';
import { reconcileRemoved } from '../reconcile.ts';
import { ephemeralScheduler } from './ephemeral.ts';
import { gangScheduler } from './gang.ts';
import { baseInputOf } from './input.ts';
import { omniScheduler } from './omni.ts';
import { serviceScheduler } from './service.ts';

/**
 * Plans what an evaluation asks for. Pure: the same cell and context give the same plan, and nothing is waited for. The
 * plan may place less than is wanted (a blocked evaluation then says why), never more than fits in the table, and it
 * claims there what it places.
 *
 * Jobs of a kind of a user's own are let go also by the plan of a higher workload that had them stopped: whether others take
 * their place is for the next plan to find out. Only runs of the kind `ephemeral` are counted down then.
 */
export interface Scheduler {
  schedule(evaluation: Evaluation, workload: Workload, cell: Cell, context: PlanContext): Plan;
}

/** By the kind of workload each plans for. */
export type Schedulers = ReadonlyMap<string, Scheduler>;

export const builtInSchedulers: Schedulers = new Map([
  ['service', serviceScheduler],
  ['omni', omniScheduler],
  ['ephemeral', ephemeralScheduler],
  ['gang', gangScheduler],
]);

export function schedulerFor(kind: string, schedulers: Schedulers = builtInSchedulers): Scheduler | undefined {
  return schedulers.get(kind);
}

/** The plan for one evaluation; a workload that is gone needs no scheduler of its own. */
export function schedule(evaluation: Evaluation, cell: Cell, context: PlanContext): Plan {
  const unread = cell.unreadable(evaluation.workloadId, context.lostHosts);
  if (unread !== undefined) return failed(evaluation, unreadReason(unread), context);
  const workload = cell.workload(evaluation.workloadId)?.value;
  if (workload === undefined) {
    const decision = reconcileRemoved(baseInputOf(evaluation.workloadId, cell, context));
    return makePlan({ evaluation, workload, decision, policy: 'pack' }, cell, context);
  }
  const scheduler = schedulerFor(workload.kind, context.schedulers);
  if (scheduler !== undefined) return scheduler.schedule(evaluation, workload, cell, context);
  const kinds = [...(context.schedulers ?? builtInSchedulers).keys()].join(', ');
  const reason = `no scheduler plans for the kind "${workload.kind}", there are: ${kinds}; no host took it up`;
  return failed(evaluation, reason, context);
}

function unreadReason(key: string): string {
  return `${key} cannot be read by this version, and no host took it up: its jobs stay as they are until it can be`;
}

function failed(evaluation: Evaluation, reason: string, { now, newId }: PlanContext): Plan {
  const end = advance(evaluation, 'failed', now, { reason });
  return { id: newId(), hosts: new Map(), outcomes: [{ evaluation, end, created: [], superseded: [] }] };
}
