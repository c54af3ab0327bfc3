/** Has as many workers carry the traffic as there is work for: looks how busy they are, and acts on what `demand` makes of it. */
import { pause, systemClock } from '@flynn/kit/clock';
import type { Clock } from '@flynn/kit/clock';
import type { Logger } from '@flynn/kit/log';
import type { WorkerRange } from './count.ts';
import { demandAfter, demandOf } from './demand.ts';
import { busyMs } from './busy-time.ts';
import type { Crew } from './crew.ts';

export const lookEveryMs = 500;
/** After one that could not be started: why it could not (no memory, most likely) is not over in a moment. */
export const afterFailureMs = 60_000;

type Sized = Pick<Crew, 'count' | 'takingPids' | 'grow' | 'shrink'>;

/** Resolves when the signal aborts. `onCount` hears of each change. */
export async function keepSized(
  workers: Sized,
  options: {
    range: WorkerRange;
    signal: AbortSignal;
    log: Logger;
    onCount?: (count: number) => Promise<void>;
    /** Of a process so far; and of a clock that never steps back. */
    busyMs?: (pid: number) => number | undefined;
    elapsedMs?: () => number;
    clock?: Pick<Clock, 'sleep'>;
  },
): Promise<void> {
  const { range, signal, log, clock = systemClock, elapsedMs = () => performance.now() } = options;
  const usedBy = options.busyMs ?? busyMs;
  let demand = demandOf(workers.count);
  let before = new Map<number, number>();
  let beforeMs = elapsedMs();
  while (!signal.aborted) {
    await pause(lookEveryMs, signal, clock);
    if (signal.aborted) return;
    const atMs = elapsedMs();
    const used = new Map(
      workers.takingPids.flatMap((pid): [number, number][] => {
        const ms = usedBy(pid);
        return ms === undefined ? [] : [[pid, ms]];
      }),
    );
    const shares = [...used].flatMap(([pid, ms]) => {
      const was = before.get(pid);
      return was === undefined ? [] : [(ms - was) / (atMs - beforeMs)];
    });
    before = used;
    beforeMs = atMs;
    // While one is started again there is nothing to be told of how busy all are.
    if (shares.length !== demand.count) continue;
    const next = demandAfter(demand, { atMs, shares }, range);
    if (next.count !== demand.count) {
      try {
        if (next.count > demand.count) await workers.grow();
        else await workers.shrink();
        if (workers.count !== demand.count) {
          log.info({ workers: workers.count, was: demand.count }, 'as many workers now as there is work for');
          await options.onCount?.(workers.count);
        }
      } catch (error) {
        if (signal.aborted) return;
        log.warn({ err: error, workers: workers.count }, 'the number of workers could not be changed');
        await pause(afterFailureMs, signal, clock);
      }
    }
    demand = next.count === workers.count ? next : demandOf(workers.count);
  }
}
