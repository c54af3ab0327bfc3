/** One deployment as it goes, through a controller that is replaced in between: it may be the one being deployed. */
import { setTimeout as sleep } from 'node:timers/promises';
import { deployments } from '@flynn/controller/api';
import { deploymentSchema, type Deployment } from '@flynn/controller/model';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import { withDeadline } from '@flynn/kit/retry';
import { formatDuration } from './output.ts';

const pauseMs = 250;

/**
 * Answers it as soon as it is so. A stream that ends or breaks says nothing of the deployment: another is opened. `timeout` when
 * it is not so within `limitMs`.
 */
export async function watchDeployment(
  client: Pick<HttpClient, 'call' | 'events'>,
  id: string,
  options: {
    until: (deployment: Deployment) => boolean;
    limitMs: number;
    onDeployment?: (deployment: Deployment) => void;
    /** What else the stream tells. Of jobs that came up or ended while there was none nobody is told. */
    onEvent?: (event: { event: string; data: unknown }) => void;
  },
): Promise<Deployment> {
  const { until, limitMs, onDeployment, onEvent } = options;
  const params = { deployment: id };
  const signal = withDeadline(limitMs);
  for (;;) {
    try {
      for await (const event of client.events(deployments.events, { params }, { signal })) {
        if (event.event !== 'deployment') {
          onEvent?.(event);
          continue;
        }
        const seen = deploymentSchema.parse(event.data);
        onDeployment?.(seen);
        if (until(seen)) return seen;
      }
      const latest = await client.call(deployments.get, { params });
      if (until(latest)) {
        onDeployment?.(latest);
        return latest;
      }
    } catch (error) {
      if (!hasCode(error, 'unavailable', 'timeout')) throw error;
    }
    if (signal.aborted) {
      throw new FlynnError(
        'timeout',
        `the deployment is still under way after ${formatDuration(limitMs)}\n  it goes on by itself: "flynn deployment" tells how it ends`,
      );
    }
    await sleep(pauseMs);
  }
}
