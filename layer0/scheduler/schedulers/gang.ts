/** `count` jobs that are of use together only: all are placed in one transaction, or none is. Packed, to be near each other. */
import { makePlan } from '../place.ts';
import { reconcileGang } from '../runs.ts';
import { inputOf } from './input.ts';
import type { Scheduler } from './scheduler.ts';

export const gangScheduler: Scheduler = {
  schedule(evaluation, workload, cell, context) {
    const decision = reconcileGang(workload, inputOf(workload, cell, context));
    return makePlan({ evaluation, workload, decision, policy: 'pack', isAtomic: true }, cell, context);
  },
};
