/** Types that are scaled by themselves as figures, of a mirror that is followed. */
import type { Metrics } from '@flynn/kit/metrics';
import type { ResourceService } from '@flynn/resource/service';
import { valuesOf } from '../mirrors/cell-view.ts';
import { holds } from './model.ts';
import { autoscaleType } from './resource.ts';
import type { AutoscaleResource } from './resource.ts';

/** Resolves once it knows them. */
export async function autoscaleFigures(resources: ResourceService, metrics: Metrics): Promise<AsyncDisposable> {
  const all = await resources.mirror(autoscaleType);
  const each = (read: (one: AutoscaleResource) => number | undefined) => () =>
    valuesOf(all).flatMap((one) => {
      const value = read(one);
      return value === undefined ? [] : [{ labels: { app: one.spec.appId, type: one.spec.type }, value }];
    });
  metrics.gauge(
    'flynn_autoscale_wanted',
    'Jobs that there is enough to do for, whatever the range.',
    // While its count is held what was seen is of earlier, but for one that there is no room for.
    each(({ status: { held, seen } }) => (held === undefined || held.reason === 'full' ? seen?.wanted : undefined)),
  );
  metrics.gauge(
    'flynn_autoscale_max',
    'The most there may be.',
    each(({ spec }) => spec.max),
  );
  metrics.gauge(
    'flynn_autoscale_changes',
    'How often the count was changed.',
    each(({ status }) => status.changes),
  );
  metrics.gauge('flynn_autoscale_held', 'Types whose count stays, by why.', () =>
    holds.map((reason) => ({
      labels: { reason },
      value: valuesOf(all).filter(({ status }) => status.held?.reason === reason).length,
    })),
  );
  return all;
}
