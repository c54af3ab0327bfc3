import { ensureImages } from '@flynn/bootstrap/images/build';
import { createRegistry } from '@flynn/discovery/store-registry';
import { silentLogger } from '@flynn/kit/log';
import { connectEtcd } from '@flynn/store/etcd';
import { startEtcdMember } from '@flynn/store/etcd-member';
import type { Store } from '@flynn/store/store';
import type { Bench } from './bench.ts';
import { figure, type Figure } from './figure.ts';

const log = silentLogger();
const rounds = 1_000;
const instances = 1_000;
const subscribers = 100;

/**
 * A write in etcd until a subscriber's callback has it, against a bare watch of the same etcd that hears of the same writes;
 * then a crowd: 1,000 instances announced under the eyes of 100 subscribers.
 */
async function benchDiscovery(): Promise<Figure[]> {
  const image = (await ensureImages({ names: ['etcd'] })).get('etcd');
  if (image === undefined) throw new Error('there is no etcd image');
  await using member = await startEtcdMember({ image });
  const connect = () => connectEtcd({ endpoints: [member.endpoint], log });
  await using writer = connect();
  return [...(await latency(writer, connect)), ...(await crowd(connect))];
}

const prefix = '/flynn/discovery/services/bench/';

async function latency(writer: Store, connect: () => Store): Promise<Figure[]> {
  await using bareStore = connect();
  await using store = connect();
  await using registry = await createRegistry({ store, log });
  const stop = new AbortController();
  const heard = { bare: Promise.withResolvers<number>(), subscriber: Promise.withResolvers<number>() };
  const { revision } = await bareStore.list(prefix);
  const bare = (async () => {
    for await (const batch of bareStore.watch(prefix, { after: revision, signal: stop.signal })) {
      if (batch.changes.length > 0) heard.bare.resolve(performance.now());
    }
  })();
  const subscribed = (async () => {
    for await (const event of registry.subscribe('bench', { signal: stop.signal })) {
      if (event.event === 'up' || event.event === 'update') heard.subscriber.resolve(performance.now());
    }
  })();
  const bareMs: number[] = [];
  const subscriberMs: number[] = [];
  for (let round = -50; round < rounds; round += 1) {
    heard.bare = Promise.withResolvers();
    heard.subscriber = Promise.withResolvers();
    const startedMs = performance.now();
    await writer.transact({ then: [{ put: `${prefix}one`, value: `{"address":"10.0.0.1:${round + 100}"}` }] });
    const [bareAt, subscriberAt] = await Promise.all([heard.bare.promise, heard.subscriber.promise]);
    if (round < 0) continue;
    bareMs.push(bareAt - startedMs);
    subscriberMs.push(subscriberAt - startedMs);
  }
  await writer.transact({ then: [{ deletePrefix: prefix }] });
  stop.abort();
  await Promise.all([bare, subscribed]);
  const compared = (percent: number, must?: string) =>
    figure({
      name: `write to callback p${percent}`,
      value: percentile(subscriberMs, percent),
      unit: 'ms',
      floor: percentile(bareMs, percent),
      ...(must === undefined ? {} : { must }),
    });
  return [compared(50), compared(99, '<= 2 x (aim 1.2)')];
}

async function crowd(connect: () => Store): Promise<Figure[]> {
  await using announcing = connect();
  await using observing = connect();
  await using announcer = await createRegistry({ store: announcing, log });
  await using observer = await createRegistry({ store: observing, log, queueLimit: 10_000 });
  const stop = new AbortController();
  const toldAt: number[] = [];
  const readers = Array.from({ length: subscribers }, async () => {
    let ups = 0;
    for await (const event of observer.subscribe('crowd', { signal: stop.signal })) {
      if (event.event === 'up') ups += 1;
      if (ups === instances) break;
    }
    toldAt.push(performance.now());
  });
  const startedMs = performance.now();
  await Promise.all(
    Array.from({ length: instances }, (_, n) =>
      announcer.register({ service: 'crowd', id: `i${n}`, address: `10.0.${n >> 8}.${n & 255}:80` }),
    ),
  );
  const registeredMs = performance.now();
  await Promise.all(readers);
  stop.abort();
  return [
    figure({ name: 'registrations', value: (instances / (registeredMs - startedMs)) * 1_000, unit: '/s' }),
    figure({
      name: `last of ${instances} registered to last of ${subscribers} subscribers`,
      value: Math.max(0, Math.max(...toldAt) - registeredMs),
      unit: 'ms',
    }),
    figure({
      name: `events told, ${instances} x ${subscribers}`,
      value: ((instances * subscribers) / (Math.max(...toldAt) - startedMs)) * 1_000,
      unit: '/s',
    }),
  ];
}

function percentile(values: readonly number[], percent: number): number {
  return values.toSorted((a, b) => a - b)[Math.ceil((values.length * percent) / 100) - 1] ?? Number.NaN;
}

export const bench: Bench = { needs: 'nothing', run: benchDiscovery };
