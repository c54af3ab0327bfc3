/** The part of the agent's API that runs workloads without Layer 1. */
import { systemClock } from '@flynn/kit/clock';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { newId } from '@flynn/kit/ids';
import { withDeadline } from '@flynn/kit/retry';
import type { Store } from '@flynn/store/store';
import { workloadRoutes } from './api.ts';
import { applyWorkload, findWorkload, listEvaluations, listWorkloads, removeWorkload } from './workloads.ts';

/** A person waits for the answer. */
const storeDeadlineMs = 5_000;

export function workloadHandlers(store: Store): Handler[] {
  const call = (signal: AbortSignal) => ({ signal: withDeadline(storeDeadlineMs, signal) });
  const change = (signal: AbortSignal) => ({ ...call(signal), now: systemClock.now(), newId });
  return [
    handle(workloadRoutes.list, async ({ signal }) => listWorkloads(store, call(signal))),
    handle(workloadRoutes.get, async ({ params, signal }) => findWorkload(store, params.workload, call(signal))),
    handle(workloadRoutes.put, async ({ params, body, signal }) =>
      applyWorkload(store, params.workload, body, change(signal)),
    ),
    handle(workloadRoutes.remove, async ({ params, signal }) => removeWorkload(store, params.workload, change(signal))),
    handle(workloadRoutes.evaluations, async ({ query, signal }) =>
      listEvaluations(store, query.workload, call(signal)),
    ),
  ];
}
