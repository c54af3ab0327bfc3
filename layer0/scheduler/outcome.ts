/** What becomes of an evaluation when its plan has been made? */
import type { Workload } from './cell.ts';
import type { Evaluation } from './evaluation.ts';
import type { Cell } from './cell-view.ts';
import { advance, makeEvaluation, supersede } from './evaluations.ts';
import type { Outcome, PlanContext } from './plan.ts';
import type { Decision } from './reconcile.ts';

/** What a plan did for the slots of a decision. */
export type Placed = Readonly<{
  /** Jobs the workload has then. */
  placed: number;
  /** Slots without a job, the held ones among them. */
  waiting: number;
  /** Hosts that failed each check. */
  obstacles: Readonly<Record<string, number>>;
  /** It can never be placed as it is. */
  impossible?: string;
}>;

/**
 * All placed: complete. Not all: complete too, and a blocked one waits for room in its stead; one that waited already
 * goes on waiting. There is one blocked evaluation per workload, the newest. Failed: when the workload's own policy or
 * size says that it will not be tried again.
 */
export function outcomeOf(
  evaluation: Evaluation,
  workload: Workload | undefined,
  decision: Decision,
  result: Placed,
  context: { cell: Cell; plan: PlanContext },
): Outcome {
  const { now } = context.plan;
  const { placed, waiting } = result;
  const priority = workload?.priority ?? evaluation.priority;
  const open = context.cell.evaluationsOf(evaluation.workloadId).map(({ value }) => value);
  const olderBlocked = open.filter((one) => one.state === 'blocked' && one.id !== evaluation.id);
  const later = laterLook(evaluation, decision, open, priority, context.plan);
  const more = { priority, previousId: evaluation.id };
  // What found no room now would not right after this.
  const isNext = decision.goesOn === true && waiting === 0;
  const next = isNext ? makeEvaluation(evaluation.workloadId, evaluation.cause, context.plan, more) : undefined;
  const created = [later, next].filter((one) => one !== undefined);
  const remaining = decision.remaining === undefined ? {} : { remaining: decision.remaining };
  const link = created.length === 0 ? {} : { nextId: created.at(-1)?.id };
  const done = (end: Evaluation, more: readonly Evaluation[] = [], newer: Evaluation = end): Outcome => ({
    evaluation,
    end,
    created: [...created, ...more],
    superseded: olderBlocked.map((one) => supersede(one, newer, now)),
    ...remaining,
  });

  const failure = result.impossible ?? decision.gaveUp;
  if (failure !== undefined)
    return done(advance(evaluation, 'failed', now, { reason: failure, placed, waiting, ...link }));
  if (waiting === 0) return done(advance(evaluation, 'complete', now, { placed, ...link }));
  const reason = waitingText(placed, waiting, result.obstacles, decision.held);
  const facts = { reason, obstacles: result.obstacles, placed, waiting };
  if (isWaiting(evaluation)) return done(advance(evaluation, 'blocked', now, { ...facts, ...link }));
  const known = olderBlocked.find((one) => one.reason === reason);
  if (known !== undefined) {
    const end = advance(evaluation, 'complete', now, { placed, waiting, blockedId: known.id, ...link });
    const superseded = olderBlocked.filter((one) => one !== known).map((one) => supersede(one, known, now));
    return { evaluation, end, created, superseded, ...remaining };
  }
  const blocked = {
    ...makeEvaluation(evaluation.workloadId, 'capacity', context.plan, more),
    ...facts,
    state: 'blocked' as const,
  };
  return done(
    advance(evaluation, 'complete', now, { placed, waiting, blockedId: blocked.id, ...link }),
    [blocked],
    blocked,
  );
}

/** Made for waiting, and looked at again because there may be room now. */
function isWaiting({ cause, previousId }: Evaluation): boolean {
  return cause === 'capacity' && previousId !== undefined;
}

function laterLook(
  evaluation: Evaluation,
  { retryAt }: Decision,
  open: readonly Evaluation[],
  priority: number,
  context: PlanContext,
): Evaluation | undefined {
  if (retryAt === undefined) return undefined;
  const isKnown = open.some(
    ({ id, state, waitUntil }) =>
      id !== evaluation.id && state === 'pending' && waitUntil !== undefined && waitUntil <= retryAt,
  );
  if (isKnown) return undefined;
  const more = { priority, waitUntil: retryAt, previousId: evaluation.id };
  return makeEvaluation(evaluation.workloadId, 'retry', context, more);
}

/** "37 placed, 63 waiting: memory (3 hosts full)" */
export function waitingText(
  placed: number,
  waiting: number,
  obstacles: Readonly<Record<string, number>>,
  held: ReadonlyMap<string, number> = new Map(),
): string {
  const texts = Object.entries(obstacles).map(([obstacle, hosts]) => {
    const full = obstacle === 'memory' || obstacle === 'cpu' ? ' full' : '';
    return `${obstacle} (${hosts} ${hosts === 1 ? 'host' : 'hosts'}${full})`;
  });
  const reasons = [...held.keys(), ...texts].sort();
  return `${placed} placed, ${waiting} waiting: ${reasons.length === 0 ? 'there is no host' : reasons.join(', ')}`;
}
