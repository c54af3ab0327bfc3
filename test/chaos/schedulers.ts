/** Many schedulers at once, and one with a bad connection. */
import assert from 'node:assert/strict';
import { connectStore } from '@flynn/bootstrap/test-hosts/cluster-view';
import { silentLogger } from '@flynn/kit/log';
import { startScheduler } from '@flynn/scheduler/scheduler';
import { startTcpProxy } from '@flynn/store/tcp-proxy';
import type { Cell } from '@flynn/scheduler/cell-view';
import { isUp } from './cell-watch.ts';
import { type Stage, scenario } from './stage.ts';
import { large, put, remove } from './workloads.ts';

const schedulers = 8;
const workloads = 16;
const jobsEach = 3;
/** Of a host's 8000 and more. */
const cpuMillis = 1_400;
const resetEveryMs = 100;

const idOf = (at: number): string => `chaos-large-${at}`;
const ids = Array.from({ length: workloads }, (_, at) => idOf(at));

export function describeSchedulers(theStage: () => Stage): void {
  scenario(theStage, 'eight more schedulers race for the last room on the hosts', async (stage, t) => {
    await using racers = new AsyncDisposableStack();
    for (let at = 0; at < schedulers; at += 1) {
      const store = await stage.cluster.store();
      racers.defer(() => store.close());
      await addScheduler(racers, store, `racer${at}`, t.signal);
    }
    // Each on its own: all of them are asked at once.
    await Promise.all(ids.map((id) => put(stage.store, [large(id, stage.image, jobsEach, cpuMillis)])));
    stage.since('the race began');
    await stage.watch.until(filled, { what: 'no room to be left and every workload to know why', deadlineMs: 240_000 });
    const placed = ids.flatMap((id) => stage.cell.jobsOf(id)).length;
    assert.ok(placed > 0 && placed < workloads * jobsEach, `${placed} of ${workloads * jobsEach} jobs were placed`);
    t.diagnostic(`${placed} of ${workloads * jobsEach} jobs found room`);
    await remove(stage.store, ids);
  });

  scenario(theStage, 'the connections of a scheduler to etcd are reset ten times a second', async (stage, t) => {
    await using racers = new AsyncDisposableStack();
    const proxies = await Promise.all(stage.hosts.map(({ address }) => startTcpProxy(2379, address)));
    for (const proxy of proxies) racers.use(proxy);
    const store = await connectStore(
      stage.hosts,
      proxies.map(({ port }) => `https://127.0.0.1:${port}`),
    );
    racers.defer(() => store.close());
    const scheduler = await addScheduler(racers, store, 'racer', t.signal);
    const resetting = setInterval(() => proxies.forEach((proxy) => proxy.reset()), resetEveryMs);
    racers.defer(() => clearInterval(resetting));
    const few = ids.slice(0, 6);
    for (const id of few) await put(stage.store, [large(id, stage.image, 1, 10)]);
    await stage.untilHealthy();
    await remove(stage.store, few);
    await stage.watch.until((cell) => few.filter((id) => cell.jobsOf(id).length > 0), {
      what: 'what was removed to be gone',
      deadlineMs: 180_000,
    });
    clearInterval(resetting);
    stage.since('the last reset');
    assert.equal(scheduler.counts.drift, 0);
  });
}

/** Leaves nothing to others: it plans for every workload, as all of them do. */
async function addScheduler(
  stack: AsyncDisposableStack,
  store: Awaited<ReturnType<typeof connectStore>>,
  id: string,
  signal: AbortSignal,
): Promise<Awaited<ReturnType<typeof startScheduler>>> {
  const scheduler = await startScheduler({ store, log: silentLogger(), signal, id, takeoverMs: 0 });
  return stack.use(scheduler);
}

function filled(cell: Cell): string[] {
  return ids.flatMap((id) => {
    const jobs = cell.jobsOf(id);
    if (jobs.some((job) => !isUp(cell, job))) return [`${id} is starting`];
    if (jobs.length === jobsEach) return [];
    const [waiting] = cell.evaluationsOf(id);
    return waiting?.value.state === 'blocked' && waiting.value.reason !== undefined
      ? []
      : [`${id} waits for no reason`];
  });
}
