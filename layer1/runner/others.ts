/** What another deployment of the app keeps from being done is done once that has ended. */
import { deployments } from '@flynn/controller/api';
import { isWaiting } from '@flynn/controller/deployments/phases';
import type { Deployment } from '@flynn/controller/model';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { othersWait } from './deploy-text.ts';
import type { Execution } from './execution.ts';
import { patiently } from './execution.ts';

const othersDeadlineMs = 2 * 60_000;

/** `act` is refused with the deployment's id; if that is one that `act` made itself, `ownOf` answers in its place. */
export async function afterOthers<T>(
  what: string,
  execution: Execution,
  act: (signal: AbortSignal) => Promise<T>,
  ownOf: (other: Deployment) => T | undefined = () => undefined,
): Promise<T> {
  const { controller, write } = execution;
  let isTold = false;
  return patiently(
    what,
    execution,
    async (signal) => {
      try {
        return await act(signal);
      } catch (error) {
        const id = hasCode(error, 'conflict') ? error.detail['deploymentId'] : undefined;
        if (typeof id !== 'string') throw error;
        const other = await controller.call(deployments.get, { params: { deployment: id } }, { signal });
        const own = ownOf(other);
        if (own !== undefined) return own;
        if (isWaiting(other)) throw new FlynnError('invalid', othersWait(other), { cause: error });
        if (!isTold) await write('       Waiting for another deployment of this app to end');
        isTold = true;
        throw error;
      }
    },
    {
      deadlineMs: othersDeadlineMs,
      isRetryable: (error) => hasCode(error, 'conflict', 'unavailable', 'timeout', 'exhausted'),
    },
  );
}
