/** One run, wherever there is room: builds, releases, `flynn run`. */
import { makePlan } from '../plan.ts';
import { rankEphemeral } from '../rank.ts';
import { reconcileEphemeral } from '../reconcile.ts';
import { inputOf } from './input.ts';
import type { Scheduler } from './scheduler.ts';

export const ephemeralScheduler: Scheduler = {
  schedule(evaluation, workload, cell, context) {
    const decision = reconcileEphemeral(workload, inputOf(workload.id, cell, context));
    return makePlan({ evaluation, workload, decision, rank: rankEphemeral }, cell, context);
  },
};
