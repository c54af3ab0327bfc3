/** `count` jobs, spread over the attributes the workload names, then over hosts. */
import { makePlan } from '../place.ts';
import { reconcileService } from '../slots.ts';
import { inputOf } from './input.ts';
import type { Scheduler } from './scheduler.ts';

export const serviceScheduler: Scheduler = {
  schedule(evaluation, workload, cell, context) {
    const decision = reconcileService(workload, inputOf(workload, cell, context));
    return makePlan({ evaluation, workload, decision, policy: 'spread' }, cell, context);
  },
};
