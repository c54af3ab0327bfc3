/** What whoever wants something run writes: workloads, and with each change the evaluation that makes it happen. */
import type { Operation } from '@flynn/store/store';
import { cellKeys, workloadSchema } from './cell.ts';
import type { Evaluation, WorkloadInput } from './cell.ts';

export type EvaluationContext = { now: number; newId: () => string };

export function makeEvaluation(workloadId: string, cause: Evaluation['cause'], context: EvaluationContext): Evaluation {
  return { id: context.newId(), workloadId, cause, state: 'pending', createdAt: context.now };
}

/** Asks for a look at the workload. There is one per workload: a second one takes the place of the first. */
export function evaluationPut(workloadId: string, cause: Evaluation['cause'], context: EvaluationContext): Operation {
  const evaluation = makeEvaluation(workloadId, cause, context);
  return { put: cellKeys.evaluation(workloadId), value: JSON.stringify(evaluation) };
}

/** Puts the workload as it is to be from now on. Belongs in one transaction. Throws ZodError for what is no workload. */
export function workloadChange(workload: WorkloadInput, context: EvaluationContext): Operation[] {
  const whole = workloadSchema.parse(workload);
  return [
    { put: cellKeys.workload(whole.id), value: JSON.stringify(whole) },
    evaluationPut(whole.id, 'workload', context),
  ];
}

/** Takes the workload away: its jobs are stopped, and let go as they end. Belongs in one transaction. */
export function workloadRemoval(workloadId: string, context: EvaluationContext): Operation[] {
  return [{ delete: cellKeys.workload(workloadId) }, evaluationPut(workloadId, 'workload', context)];
}
