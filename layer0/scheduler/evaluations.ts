/** What whoever wants something run writes: workloads, and with each change the evaluation that makes it happen. */
import type { Operation } from '@flynn/store/store';
import { cellKeys, workloadInputSchema } from './cell.ts';
import type { Demand, Workload, WorkloadInput } from './cell.ts';
import type { JobTemplate } from './job-template.ts';
import type { Evaluation, evaluationStates } from './evaluation.ts';

export type EvaluationContext = { now: number; newId: () => string };
export type Cause = Evaluation['cause'];
type EvaluationState = (typeof evaluationStates)[number];

const defaultPriority = 50;

export function makeEvaluation(
  workloadId: string,
  cause: Cause,
  context: EvaluationContext,
  more: Partial<Pick<Evaluation, 'priority' | 'waitUntil' | 'previousId'>> = {},
): Evaluation {
  const { now, newId } = context;
  return { id: newId(), workloadId, cause, state: 'pending', priority: defaultPriority, createdAt: now, ...more };
}

export function evaluationWrite(evaluation: Evaluation): Operation {
  return { put: cellKeys.evaluation(evaluation.id), value: JSON.stringify(evaluation) };
}

/** Asks for a look at the workload. Asking twice is harmless: the newest is carried out, the others are cancelled. */
export function evaluationPut(
  workloadId: string,
  cause: Cause,
  context: EvaluationContext,
  more: Parameters<typeof makeEvaluation>[3] = {},
): Operation {
  return evaluationWrite(makeEvaluation(workloadId, cause, context, more));
}

/** Puts the workload as it is to be from now on. Belongs in one transaction. Throws ZodError for what is no workload. */
export function workloadChange(input: WorkloadInput, context: EvaluationContext): Operation[] {
  const { template, ...rest } = workloadInputSchema.parse(input);
  const workload: Workload = { ...rest, demand: demandOf(rest.id, template) };
  return [
    { put: cellKeys.workload(workload.id), value: JSON.stringify(workload) },
    { put: cellKeys.template(workload.id, workload.version), value: JSON.stringify(template) },
    evaluationPut(workload.id, 'workload', context, { priority: workload.priority }),
  ];
}

/**
 * Takes the workload away: its jobs are stopped, and let go as they end; its templates stay until then. It goes first:
 * what is gone makes room for others. Belongs in one transaction.
 */
export function workloadRemoval(workloadId: string, context: EvaluationContext): Operation[] {
  return [{ delete: cellKeys.workload(workloadId) }, evaluationPut(workloadId, 'removal', context, { priority: 100 })];
}

/** What one job of a template takes of its host. */
export function demandOf(workloadId: string, template: JobTemplate): Demand {
  const { resources, hostNetwork, ports, meta } = template;
  const volumes = template.volumes.filter(({ isShared = false }) => !isShared);
  const app = meta['flynn.app'];
  return {
    ...resources,
    hostPorts: hostNetwork ? [...new Set(ports.map(({ port }) => port))].sort((a, b) => a - b) : [],
    family: app === undefined ? workloadId : `${app}/${meta['flynn.type'] ?? ''}`,
    volumes: volumes.map(({ name }) => name),
    ...(volumes.length > 0 && volumes.every(({ isReplaceable }) => isReplaceable === true)
      ? { canLeaveVolumes: true }
      : {}),
  };
}

const next: Readonly<Record<EvaluationState, readonly EvaluationState[]>> = {
  pending: ['complete', 'failed', 'cancelled', 'blocked'],
  blocked: ['pending', 'cancelled'],
  complete: [],
  failed: [],
  cancelled: [],
};

/** Whether nothing more becomes of it. */
export function isEnded({ state }: Pick<Evaluation, 'state'>): boolean {
  return next[state].length === 0;
}

/** The evaluation in its next state. Throws for a step there is not: what ended stays as it ended. */
export function advance(
  evaluation: Evaluation,
  state: EvaluationState,
  now: number,
  more: Partial<Pick<Evaluation, 'reason' | 'obstacles' | 'placed' | 'waiting' | 'nextId' | 'blockedId'>> = {},
): Evaluation {
  if (state !== evaluation.state && !next[evaluation.state].includes(state)) {
    throw new Error(`evaluation ${evaluation.id} is ${evaluation.state} and cannot become ${state}`);
  }
  // Most are made to end at once, with nothing to leave out.
  if (!('reason' in evaluation || 'obstacles' in evaluation || 'waitUntil' in evaluation)) {
    return { ...evaluation, ...more, state, updatedAt: now };
  }
  const { reason: _reason, obstacles: _obstacles, waitUntil, ...kept } = evaluation;
  const waits = state === 'pending' && waitUntil !== undefined ? { waitUntil } : {};
  return { ...kept, ...waits, ...more, state, updatedAt: now };
}

/** What a newer one of the same workload makes of an older one. */
export function supersede(older: Evaluation, newer: Evaluation, now: number): Evaluation {
  return advance(older, 'cancelled', now, { reason: 'a newer evaluation takes its place', nextId: newer.id });
}

const followUpMs = { min: 60_000, max: 5 * 60_000 };

/** The end of one that could not be carried out, and the later try, as long as there is a workload to try it for. */
export function giveUp(
  evaluation: Evaluation,
  reason: string,
  context: EvaluationContext & { random: () => number; hasWorkload: boolean },
): { end: Evaluation; followUp: Evaluation | undefined } {
  const { now, random, hasWorkload } = context;
  if (!hasWorkload) return { end: advance(evaluation, 'failed', now, { reason }), followUp: undefined };
  const waitUntil = now + followUpMs.min + Math.floor(random() * (followUpMs.max - followUpMs.min));
  const { priority } = evaluation;
  const more = { priority, waitUntil, previousId: evaluation.id };
  const followUp = makeEvaluation(evaluation.workloadId, 'follow_up', context, more);
  return { end: advance(evaluation, 'failed', now, { reason, nextId: followUp.id }), followUp };
}
