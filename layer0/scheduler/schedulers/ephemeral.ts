/** Runs that end, wherever there is room: builds, releases, `flynn run`. */
import { makePlan } from '../place.ts';
import { reconcileEphemeral } from '../runs.ts';
import { inputOf } from './input.ts';
import type { Scheduler } from './scheduler.ts';

export const ephemeralScheduler: Scheduler = {
  schedule(evaluation, workload, cell, context) {
    const decision = reconcileEphemeral(workload, inputOf(workload, cell, context));
    return makePlan({ evaluation, workload, decision, policy: 'two_choices' }, cell, context);
  },
};
