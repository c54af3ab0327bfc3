/** Which workloads' last evaluation failed, and is on record: what fails again as before need not be written again. */
import type { Evaluation } from './evaluation.ts';
import type { Outcome, Plan } from './plan.ts';

type Failure = Readonly<{ evaluationId: string; reason: string | undefined }>;

/** INVARIANT. What is known is what changes of the store told; what it had before is unknown, and may be written once more. */
export class Failures {
  /** By workload. */
  readonly #known = new Map<string, Failure>();
  /** By evaluation: that a record is gone is told by its id alone. */
  readonly #workloads = new Map<string, string>();

  has(workloadId: string): boolean {
    return this.#known.has(workloadId);
  }

  /** What the store has of an evaluation from now on; undefined once it is gone. */
  learn(evaluationId: string, after: Evaluation | undefined): void {
    const workloadId = after?.workloadId ?? this.#workloads.get(evaluationId);
    if (workloadId === undefined) return;
    if (after?.state === 'failed') {
      this.#forget(workloadId);
      this.#known.set(workloadId, { evaluationId, reason: after.reason });
      this.#workloads.set(evaluationId, workloadId);
    } else if (after === undefined || after.state === 'complete') this.#forget(workloadId);
  }

  /** The plan, with those of its outcomes marked that say what is on record already. */
  marked(plan: Plan): Plan {
    if (plan.hosts.size > 0 || !plan.outcomes.some((one) => this.#isKnown(one))) return plan;
    const outcomes = plan.outcomes.map((one) => (this.#isKnown(one) ? { ...one, isKnown: true } : one));
    return { ...plan, outcomes };
  }

  #isKnown({ evaluation, end, created, superseded, remaining }: Outcome): boolean {
    const failure = this.#known.get(evaluation.workloadId);
    if (failure === undefined || end.state !== 'failed' || end.reason !== failure.reason) return false;
    return created.length === 0 && superseded.length === 0 && remaining === undefined;
  }

  #forget(workloadId: string): void {
    const failure = this.#known.get(workloadId);
    if (failure === undefined) return;
    this.#known.delete(workloadId);
    this.#workloads.delete(failure.evaluationId);
  }
}
