/** The loop that scales: it sleeps while nothing is scaled by itself, and else looks every few seconds. */
import { pause } from '@flynn/kit/clock';
import { forever } from '@flynn/kit/tasks';
import type { Controller } from '@flynn/resource/controller';
import { valuesOf } from '../mirrors/cell-view.ts';
import type { ControllerContext } from '../generic/kind.ts';
import { sleepMs } from './looks.ts';
import { autoscaleType } from './resource.ts';
import { Autoscaler } from './scaler.ts';

export function autoscaling({ resources, deps, log }: ControllerContext): Controller {
  return {
    name: 'autoscaling',
    placement: 'singleton',
    async run({ signal, epoch }) {
      await using settings = await resources.mirror(autoscaleType, { signal });
      const scaler = new Autoscaler(deps, epoch);
      let changed = new AbortController();
      using listeners = new DisposableStack();
      listeners.defer(
        settings.onChange(({ before, after }) => {
          // What is said of how it goes is its own doing.
          if (before?.generation !== after?.generation || before?.uid !== after?.uid) changed.abort();
        }),
      );
      const step = async (limited: AbortSignal): Promise<void> => {
        changed = new AbortController();
        const all = valuesOf(settings).filter(({ deletingSince }) => deletingSince === undefined);
        const nextMs = await scaler.look(all, limited);
        await pause(sleepMs(nextMs, deps.now()), AbortSignal.any([limited, changed.signal]));
      };
      await forever('autoscaling', step, { signal, log });
    },
  };
}
