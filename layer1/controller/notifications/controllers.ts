/** What the workers run: one of them looks what there is to tell, one sends it. */
import { pause } from '@flynn/kit/clock';
import { hasCode } from '@flynn/kit/errors';
import { forever } from '@flynn/kit/tasks';
import type { Controller } from '@flynn/resource/controller';
import { keysOf, runReconciler } from '@flynn/resource/reconciler';
import type { ControllerContext } from '../generic/kind.ts';
import { stepDelivery } from './delivery.ts';
import { sendOverHttp } from './sender.ts';
import { notificationType } from './types.ts';
import type { NotificationSpec } from './types.ts';
import { stepWatching } from './watch-steps.ts';

const lookMs = 3_000;
/** Receivers that are slow hold up each other only where there are more of them. */
const atOnce = 16;

export function watching({ deps, log }: ControllerContext): Controller {
  return {
    name: 'what to notify of',
    placement: 'singleton',
    async run({ signal, epoch }) {
      let wake = new AbortController();
      using listeners = new DisposableStack();
      listeners.defer(
        deps.deployments.onChange(({ before, after }) => {
          if (before?.status.endedAt === undefined && after?.status.endedAt !== undefined) wake.abort();
        }),
      );
      const look = async (limited: AbortSignal): Promise<void> => {
        wake = new AbortController();
        try {
          await stepWatching(deps, { signal: limited, epoch });
        } catch (error) {
          // Somebody else wrote first: it is looked at again.
          if (!hasCode(error, 'conflict')) throw error;
        }
        await pause(lookMs, AbortSignal.any([limited, wake.signal]));
      };
      await forever('looking what to notify of', look, { signal, log });
    },
  };
}

export function delivering({ deps, log }: ControllerContext): Controller {
  return {
    name: 'notifications',
    placement: 'singleton',
    async run({ signal, epoch }) {
      await using all = await deps.resources.mirror(notificationType, { signal });
      const lane = (name: string, isIn: (spec: NotificationSpec) => boolean) =>
        runReconciler({
          name,
          sources: [keysOf(all, ({ id, spec }) => (isIn(spec) ? [id] : []))],
          concurrency: atOnce,
          reconcile: (id, { signal: run }) =>
            stepDelivery(deps, id, { send: sendOverHttp, random: Math.random, signal: run, epoch }),
          log,
          signal,
        });
      // Receivers of apps that answer nobody hold up none of the cluster's.
      await Promise.all([
        lane('notifications of the cluster', ({ appId }) => appId === undefined),
        lane('notifications of apps', ({ appId }) => appId !== undefined),
      ]);
    },
  };
}
