/** What becomes of a rollout whose operation is cancelled. */
import { deployments } from '@flynn/controller/api';
import { deploymentControls } from '@flynn/controller/deployments/api-controls';
import { operations } from '@flynn/controller/operations/api';
import { FlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import { retry } from '@flynn/kit/retry';
import type { Execution } from './execution.ts';

/** Less than a runner that is to go has. */
const deadlineMs = 10_000;

/**
 * What whoever pushed has cancelled is not to go live behind their back: the app is as it was before. Throws `cancelled` with
 * what became of it; returns where the operation was not cancelled, but its runner stops: then the rollout goes on.
 */
export async function takeBackCancelled(
  releaseIds: ReadonlySet<string>,
  { operation, controller }: Pick<Execution, 'operation' | 'controller'>,
): Promise<void> {
  const params = { app: operation.appId };
  const takeBack = async (signal: AbortSignal): Promise<string | undefined> => {
    const now = await controller.call(operations.get, { params: { operation: operation.id } }, { signal });
    if (now.state !== 'cancelled' && now.isCancelRequested !== true) return undefined;
    const all = await controller.call(deployments.list, { params }, { signal });
    const own = all.find(({ newReleaseId }) => releaseIds.has(newReleaseId));
    if (own === undefined) return 'it was cancelled before its rollout began';
    try {
      const body = { reason: 'its push was cancelled' };
      await controller.call(deploymentControls.abort, { params: { deployment: own.id }, body }, { signal });
      return 'it was cancelled: its rollout is taken back';
    } catch (error) {
      if (!hasCode(error, 'conflict')) throw error;
      return own.state === 'failed'
        ? 'it was cancelled when it had failed already'
        : 'it was cancelled when it was live already';
    }
  };
  let outcome: string | undefined;
  try {
    outcome = await retry(takeBack, { what: 'taking the rollout back', deadlineMs });
  } catch (error) {
    outcome = `it was cancelled, but its rollout goes on: it could not be taken back (${messageOf(error)}); "flynn deployment abort" does`;
  }
  if (outcome !== undefined) throw new FlynnError('cancelled', outcome);
}
