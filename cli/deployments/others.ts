/** What another deployment of an app keeps from being done is done once that has ended. */
import { deployments } from '@flynn/controller/api';
import { isLive, isWaiting } from '@flynn/controller/deployments/phases';
import { hasCode } from '@flynn/kit/errors';
import { pause } from '@flynn/kit/clock';
import { withDeadline } from '@flynn/kit/retry';
import type { Context } from '../context.ts';

const othersMs = 2 * 60_000;
const lookMs = 250;

type Waiting = Readonly<{
  app: string;
  /** One that is not live yet is waited for, too; old jobs of one that is always are. Nothing is that waits for people. */
  waitsUntilLive: boolean;
  signal?: AbortSignal;
}>;

/** `act` is refused as a `conflict` that names the other deployment: that refusal is thrown once two minutes are over. */
export async function afterOthers<T>(
  context: Context,
  { app, waitsUntilLive, signal }: Waiting,
  act: () => Promise<T>,
): Promise<T> {
  const client = await context.client();
  const limited = withDeadline(othersMs, signal);
  let isTold = false;
  for (;;) {
    signal?.throwIfAborted();
    try {
      return await act();
    } catch (error) {
      const id = hasCode(error, 'conflict') ? error.detail['deploymentId'] : undefined;
      if (typeof id !== 'string') throw error;
      signal?.throwIfAborted();
      if (limited.aborted) throw error;
      const asked = signal === undefined ? {} : { signal };
      const other = await client.call(deployments.get, { params: { deployment: id } }, asked);
      if (!isLive(other) && other.state !== 'failed') {
        if (!waitsUntilLive || isWaiting(other)) throw error;
        if (!isTold) context.tell(`waiting for another deployment of ${app} to end`);
        isTold = true;
      }
    }
    await pause(lookMs, limited);
  }
}
