/** `count` jobs, spread over zones and hosts. */
import { makePlan } from '../plan.ts';
import { rankService } from '../rank.ts';
import { reconcileService } from '../slots.ts';
import { inputOf } from './input.ts';
import type { Scheduler } from './scheduler.ts';

export const serviceScheduler: Scheduler = {
  schedule(evaluation, workload, cell, context) {
    const decision = reconcileService(workload, inputOf(workload.id, cell, context));
    return makePlan({ evaluation, workload, decision, rank: rankService }, cell, context);
  },
};
