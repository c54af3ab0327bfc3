/** How many of a process type there are to be: + and −, sent once somebody has stopped pressing. */
import { useEffect, useState } from 'preact/hooks';
import type { formations } from '@flynn/controller/api';
import type { Autoscale } from '@flynn/controller/autoscale/model';
import type { App } from '@flynn/controller/model';
import { useAction } from '../parts/loading.ts';
import { DoingNotice } from '../parts/notices.tsx';
import { useServices } from '../parts/services.ts';
import type { TypeCount } from '../world/app-state.ts';
import { isDue, pressed, sentOf, told, type Wish } from './scaling-wish.ts';

const settleMs = 500;
/** So long what was sent is shown for what the cluster says, which may have told of it and of another count at once. */
const tellMs = 5_000;

/** `range`: of a type that is scaled by itself. */
export function Scaling(props: { app: App; count: TypeCount; isFixed: boolean; range: Autoscale | undefined }) {
  const { app, count, isFixed, range } = props;
  const { api } = useServices();
  const { type, wanted, up } = count;
  const [wish, setWish] = useState<Wish | undefined>();
  const { doing, run } = useAction(async (_once, processes: Record<string, number>) => {
    const params = { app: app.name, release: app.releaseId ?? '' };
    await api.call<typeof formations.put>('PUT /apps/:app/formations/:release', { params, body: { processes } });
  });
  const isPending = doing.is === 'pending';
  useEffect(() => setWish((wish) => (wish === undefined ? undefined : told(wish, wanted))), [wanted]);
  useEffect(() => {
    if (wish === undefined || isPending) return undefined;
    const send = async () => {
      setWish(sentOf(wish));
      if (!(await run({ [type]: wish.count }))) setWish(undefined);
    };
    const timer = isDue(wish) ? setTimeout(() => void send(), settleMs) : setTimeout(() => setWish(undefined), tellMs);
    return () => clearTimeout(timer);
  }, [wish, isPending]);
  const shown = wish?.count ?? wanted;
  const press = (by: number) => setWish((wish) => pressed(wish, wanted, by));
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
        {wish === undefined ? `${up} up` : 'scaling …'}
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
