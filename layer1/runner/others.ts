/**
 * What another deployment of the app keeps from being done is done once that has ended. The controller gives such operations to
 * runners only then: what is waited for here began in between, or is told of by a controller that does not do so yet.
 */
import { deployments } from '@flynn/controller/api';
import { needsPeople, othersText } from '@flynn/controller/deployments/phases';
import type { Deployment } from '@flynn/controller/model';
import { systemClock } from '@flynn/kit/clock';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { othersWait } from './deploy-text.ts';
import type { Execution } from './execution.ts';
import { patiently } from './execution.ts';

/** One whose release line takes an hour, and whose jobs take their time, is through by then; a push is given up then, too. */
const usual = { othersMs: 2 * 3_600_000, failuresMs: 2 * 60_000, lookMs: 1_000 } as const;

/**
 * `act` is refused with the deployment's id; if that is one that `act` made itself, `ownOf` answers in its place. A deployment ends
 * by itself, fails, or waits for people, which nobody else waits for: as long as it goes on it is waited for, up to `othersMs`.
 * All else that goes wrong is tried again for `failuresMs`.
 */
export async function afterOthers<T>(
  what: string,
  execution: Pick<Execution, 'controller' | 'write' | 'signal'>,
  act: (signal: AbortSignal) => Promise<T>,
  ownOf: (other: Deployment) => T | undefined = () => undefined,
  { othersMs, failuresMs, lookMs }: Readonly<Record<keyof typeof usual, number>> = usual,
): Promise<T> {
  const { controller, write, signal } = execution;
  const beganMs = performance.now();
  const attempt = async (limited: AbortSignal): Promise<{ done: T } | { refusedBy: Deployment; error: unknown }> => {
    try {
      return { done: await act(limited) };
    } catch (error) {
      const id = hasCode(error, 'conflict') ? error.detail['deploymentId'] : undefined;
      if (typeof id !== 'string') throw error;
      const other = await controller.call(deployments.get, { params: { deployment: id } }, { signal: limited });
      const own = ownOf(other);
      return own === undefined ? { refusedBy: other, error } : { done: own };
    }
  };
  const isRetryable = (error: unknown): boolean => hasCode(error, 'conflict', 'unavailable', 'timeout', 'exhausted');
  for (let isTold = false; ; isTold = true) {
    const outcome = await patiently(what, { signal }, attempt, { deadlineMs: failuresMs, isRetryable });
    if ('done' in outcome) return outcome.done;
    const { refusedBy, error } = outcome;
    if (needsPeople(refusedBy)) throw new FlynnError('invalid', othersWait(refusedBy), { cause: error });
    if (performance.now() - beganMs > othersMs) throw new FlynnError('timeout', othersLast(othersMs), { cause: error });
    if (!isTold) await write(othersText);
    await systemClock.sleep(lookMs, { signal });
  }
}

function othersLast(othersMs: number): string {
  return `other deployments of this app went on for ${othersMs / 3_600_000} h: "flynn deployment" tells what they wait for; "flynn deployment abort" takes one back, then push again`;
}
