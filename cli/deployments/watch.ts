/** One deployment as it goes, through a controller that is replaced in between: it may be the one being deployed. */
import { deployments } from '@flynn/controller/api';
import { deploymentSchema, type Deployment } from '@flynn/controller/model';
import { type Clock, pause, systemClock } from '@flynn/kit/clock';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import { withDeadline } from '@flynn/kit/retry';
import { formatDuration } from '../output.ts';

const pauseMs = 250;
/** So long a controller is waited for that does not answer; what is under way needs nobody who looks on. */
export const outageMs = 60_000;

/**
 * Answers it as soon as it is so. A stream that ends or breaks says nothing of the deployment: another is opened. `onLost` is
 * told of each failure, and after a minute of nothing else that is thrown. `timeout` when it is not so within `limitMs`.
 */
export async function watchDeployment(
  client: Pick<HttpClient, 'call' | 'events'>,
  id: string,
  options: {
    until: (deployment: Deployment) => boolean;
    limitMs: number;
    /** Whose it is, where hints have to name it. */
    app?: string;
    onDeployment?: (deployment: Deployment) => void;
    /** What else the stream tells. Of jobs that came up or ended while there was none nobody is told. */
    onEvent?: (event: { event: string; data: unknown }) => void;
    onLost: (error: FlynnError) => void;
    clock?: Clock;
  },
): Promise<Deployment> {
  const { until, limitMs, app, onDeployment, onEvent, onLost, clock = systemClock } = options;
  const command = `"flynn${app === undefined ? '' : ` -a ${app}`} deployment info"`;
  const params = { deployment: id };
  const signal = withDeadline(limitMs);
  let brokenSinceMs: number | undefined;
  for (;;) {
    try {
      for await (const event of client.events(deployments.events, { params }, { signal })) {
        brokenSinceMs = undefined;
        if (event.event !== 'deployment') {
          onEvent?.(event);
          continue;
        }
        const seen = deploymentSchema.parse(event.data);
        onDeployment?.(seen);
        if (until(seen)) return seen;
      }
      const latest = await client.call(deployments.get, { params });
      brokenSinceMs = undefined;
      if (until(latest)) {
        onDeployment?.(latest);
        return latest;
      }
    } catch (error) {
      if (!hasCode(error, 'unavailable', 'timeout')) throw error;
      if (!signal.aborted) {
        onLost(error);
        brokenSinceMs ??= clock.now();
        if (clock.now() - brokenSinceMs > outageMs) throw unanswered(error, command);
      }
    }
    if (signal.aborted) {
      throw new FlynnError(
        'timeout',
        `the deployment is still under way after ${formatDuration(limitMs)}\n  it goes on by itself: ${command} tells how it ends`,
      );
    }
    await pause(pauseMs, signal, clock);
  }
}

function unanswered(error: FlynnError, command: string): FlynnError {
  const { code, message, detail } = error;
  const text = `${message}\n  nobody has answered for ${formatDuration(outageMs)}; the deployment goes on by itself: ${command} tells how it ends`;
  return new FlynnError(code, text, { cause: error, detail });
}
