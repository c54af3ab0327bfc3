/** `count` jobs, spread over the attributes the workload names, then over hosts. */
import { makePlan } from '../place.ts';
import { rebalance } from '../rebalance.ts';
import { reconcileService } from '../slots.ts';
import { inputOf } from './input.ts';
import type { Scheduler } from './scheduler.ts';

export const serviceScheduler: Scheduler = {
  schedule(evaluation, workload, cell, context) {
    const wanted = reconcileService(workload, inputOf(workload, cell, context));
    const decision = evaluation.cause === 'rebalance' ? rebalance(workload, wanted, cell, context) : wanted;
    return makePlan({ evaluation, workload, decision, policy: 'spread' }, cell, context);
  },
};
