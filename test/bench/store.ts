import { ensureEngine } from '@flynn/bootstrap/machine/engine';
import { ensureImages } from '@flynn/bootstrap/images/build';
import { silentLogger } from '@flynn/kit/log';
import { withDeadline } from '@flynn/kit/retry';
import { connectEtcd } from '@flynn/store/etcd';
import { startEtcdCluster } from '@flynn/store/etcd-cluster';
import type { Store } from '@flynn/store/store';
import type { Bench } from './bench.ts';
import { figure, median, type Figure } from './figure.ts';

const value = 'x'.repeat(256);
/** Under way at once. */
const width = 32;
const perTransaction = 64;
const warmUp = 500;

/**
 * What the etcd driver costs this process and how fast it is, on loopback over TLS, without syncing to disk: the machine's
 * processors are shared with the members, so the rates are floors of what several machines do.
 */
async function benchStore(args: readonly string[]): Promise<Figure[]> {
  const puts = Number(args[0] ?? 10_000);
  await ensureEngine();
  const image = (await ensureImages({ names: ['etcd'] })).get('etcd') ?? '';
  const figures: Figure[] = [];
  for (const members of [1, 3]) {
    process.stderr.write(`${members} members …\n`);
    await using cluster = await startEtcdCluster({ members, tls: true, image });
    const tls = cluster.tls === undefined ? {} : { tls: cluster.tls };
    await using store = connectEtcd({ endpoints: cluster.endpoints, log: silentLogger(), ...tls });
    await putMany(store, warmUp, 1);
    const single = await putMany(store, puts, 1);
    const grouped = await putMany(store, puts, perTransaction);
    const { acknowledged, watched } = await watchLatency(store, 500);
    const of = `${members} member${members === 1 ? '' : 's'}`;
    figures.push(
      figure({ name: `puts, ${of}`, value: single.perSecond, unit: '/s' }),
      figure({ name: `puts in transactions of ${perTransaction}, ${of}`, value: grouped.perSecond, unit: '/s' }),
      figure({ name: `client CPU per put, ${of}`, value: single.cpuMicros, unit: 'us' }),
      figure({ name: `client CPU per put in a transaction, ${of}`, value: grouped.cpuMicros, unit: 'us' }),
      figure({ name: `put to watch p50, ${of}`, value: median(watched), unit: 'ms', floor: median(acknowledged) }),
      figure({ name: `put to watch p99, ${of}`, value: p99(watched), unit: 'ms', floor: p99(acknowledged) }),
    );
  }
  return figures;
}

/** `total` puts of 256 bytes to a thousand keys, so many to a transaction. */
async function putMany(store: Store, total: number, size: number): Promise<{ perSecond: number; cpuMicros: number }> {
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < total) {
      const first = next;
      next += size;
      const keys = Array.from({ length: size }, (_, i) => `/bench/${(first + i) % 1_000}`);
      await store.transact({ then: keys.map((key) => ({ put: key, value })) });
    }
  };
  const startedAt = performance.now();
  const cpuBefore = process.cpuUsage();
  await Promise.all(Array.from({ length: Math.min(width, Math.ceil(total / size)) }, lane));
  const cpu = process.cpuUsage(cpuBefore);
  const seconds = (performance.now() - startedAt) / 1_000;
  return { perSecond: next / seconds, cpuMicros: (cpu.user + cpu.system) / next };
}

/** One put after the other: milliseconds from its sending to its answer, and to its arrival at a watch of the same client. */
async function watchLatency(store: Store, count: number): Promise<{ acknowledged: number[]; watched: number[] }> {
  const abort = new AbortController();
  const arrived = new Map<number, PromiseWithResolvers<number>>();
  const arrival = (revision: number): PromiseWithResolvers<number> => {
    const waiting = arrived.get(revision) ?? Promise.withResolvers<number>();
    arrived.set(revision, waiting);
    return waiting;
  };
  const { revision } = await store.list('/latency/');
  const signal = AbortSignal.any([abort.signal, withDeadline(60_000)]);
  const reading = (async () => {
    for await (const batch of store.watch('/latency/', { after: revision, signal })) {
      arrival(batch.revision).resolve(performance.now());
    }
  })();
  const acknowledged: number[] = [];
  const watched: number[] = [];
  for (let i = 0; i < count; i += 1) {
    const sentMs = performance.now();
    const result = await store.transact({ then: [{ put: '/latency/a', value }] });
    acknowledged.push(performance.now() - sentMs);
    watched.push((await arrival(result.revision).promise) - sentMs);
  }
  abort.abort();
  await reading;
  return { acknowledged, watched };
}

function p99(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length * 0.99)] ?? Number.NaN;
}

export const bench: Bench = { needs: 'nothing', run: benchStore };
