/** How many of a process type there are to be: + and −, sent once somebody has stopped pressing. */
import { useEffect, useState } from 'preact/hooks';
import type { formations } from '@flynn/controller/api';
import type { Autoscale } from '@flynn/controller/autoscale/model';
import type { App } from '@flynn/controller/model';
import { useAction } from '../parts/loading.ts';
import { DoingNotice } from '../parts/notices.tsx';
import { useServices } from '../parts/services.ts';
import type { TypeCount } from '../world/app-state.ts';

const settleMs = 500;

/** `range`: of a type that is scaled by itself. */
export function Scaling(props: { app: App; count: TypeCount; isFixed: boolean; range: Autoscale | undefined }) {
  const { app, count, isFixed, range } = props;
  const { api } = useServices();
  const { type, wanted, up } = count;
  const [target, setTarget] = useState<number | undefined>();
  const { doing, run } = useAction(async (_once, processes: Record<string, number>) => {
    const params = { app: app.name, release: app.releaseId ?? '' };
    await api.call<typeof formations.put>('PUT /apps/:app/formations/:release', { params, body: { processes } });
  });
  useEffect(() => {
    if (target === undefined || doing.is !== 'idle') return undefined;
    if (target === wanted) {
      setTarget(undefined);
      return undefined;
    }
    const timer = setTimeout(() => {
      void run({ [type]: target }).then((isDone) => (isDone ? undefined : setTarget(undefined)));
    }, settleMs);
    return () => clearTimeout(timer);
  }, [target, wanted, doing.is]);
  const shown = target ?? wanted;
  const press = (by: number) => setTarget(Math.max(0, shown + by));
  return (
    <div class="scaling">
      <span class="scaling-type">{type}</span>
      {isFixed || range !== undefined ? (
        <output>{shown}</output>
      ) : (
        <span class="stepper" role="group" aria-label={`How many of ${type}`}>
          <button type="button" aria-label={`One ${type} less`} disabled={shown === 0} onClick={() => press(-1)}>
            −
          </button>
          <output aria-live="polite">{shown}</output>
          <button type="button" aria-label={`One ${type} more`} onClick={() => press(1)}>
            +
          </button>
        </span>
      )}
      <span class={up < wanted ? 'short' : 'dim'} role="status">
        {target === undefined ? `${up} up` : 'scaling …'}
      </span>
      <DoingNotice doing={doing} />
      {range === undefined ? null : <Range range={range} />}
    </div>
  );
}

function Range({ range }: { range: Autoscale }) {
  const { min, max, held, seen } = range;
  return (
    <p class="scaling-range dim">
      by itself, {min} to {max}
      {held === undefined ? '' : `: ${held.why}`}
      {held !== undefined || seen === undefined ? '' : `: ${seen.figures}`}
    </p>
  );
}
