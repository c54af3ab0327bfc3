/** From a host's last keepalive to its work committed elsewhere, on a real etcd. */
import { newId } from '@flynn/kit/ids';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { cellKeys, hostRecordSchema } from '@flynn/scheduler/cell';
import { workloadChange } from '@flynn/scheduler/evaluations';
import { startScheduler } from '@flynn/scheduler/scheduler';
import { connectEtcd } from '@flynn/store/etcd';
import type { Bench } from './bench.ts';
import { startEtcdMembers } from './etcd-members.ts';
import { figure, median } from './figure.ts';
import type { Figure } from './figure.ts';

const log = silentLogger();
const rounds = 3;
const jobs = 40;

export const bench: Bench = {
  needs: 'nothing',
  run: async () => {
    await using members = await startEtcdMembers(1, 'disk');
    const figures: Figure[] = [];
    for (const ttlSeconds of [2, 5]) {
      const seconds: number[] = [];
      for (let round = 0; round < rounds; round += 1) seconds.push(await loseHost(members.endpoints, ttlSeconds));
      const name = `keepalive stopped to replacements committed, TTL ${ttlSeconds} s`;
      figures.push(figure({ name, value: median(seconds), unit: 's', floor: ttlSeconds }));
    }
    return figures;
  },
};

async function loseHost(endpoints: readonly string[], ttlSeconds: number): Promise<number> {
  const stop = new AbortController();
  await using store = connectEtcd({ endpoints: [...endpoints], log });
  const lost = connectEtcd({ endpoints: [...endpoints], log });
  await store.transact({ then: [{ deletePrefix: '/' }] });
  const lease = await lost.grantLease({ ttlSeconds });
  await store.transact({ then: ['h1', 'h2', 'h3'].map((id) => ({ put: cellKeys.host(id), value: hostText(id) })) });
  await store.transact({ then: [{ put: cellKeys.host('h4'), value: hostText('h4'), lease: lease.id }] });
  // The grace is for agents that lose their connection for a moment: what is measured is what comes after it.
  await using scheduler = await startScheduler({ store, log, signal: stop.signal, id: 'h1', lossGraceMs: 0 });
  const template = { image: { name: 'a' }, resources: { memoryBytes: 1_000, cpuMillis: 1 } };
  const workload = { id: 'web', kind: 'service', count: jobs, version: 'v1', template };
  await store.transact({ then: workloadChange(workload, { now: Date.now(), newId }) });
  await waitFor(() => scheduler.counts.placements === jobs, { what: 'the first placements', deadlineMs: 20_000 });
  // Gone like a host whose power is cut: without a word.
  await lost.close();
  const startedAt = performance.now();
  await waitFor(() => scheduler.counts.placements > jobs, {
    what: 'the replacements',
    deadlineMs: 60_000,
    intervalMs: 5,
  });
  const seconds = (performance.now() - startedAt) / 1_000;
  stop.abort();
  return seconds;
}

function hostText(id: string): string {
  const capacity = { memoryBytes: 1e9, cpuMillis: 4_000 };
  return JSON.stringify(hostRecordSchema.parse({ id, address: '192.0.2.1', apiPort: 1113, startedAt: 0, capacity }));
}
