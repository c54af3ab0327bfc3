/** What a cluster stands on gives way: resolvers that answer nothing, a store without room. It goes on, and mends what it can. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { resolve } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import type { Store } from '@flynn/store/store';
import { decode, encode } from 'dns-packet';
import { startSteadyLoad } from '../steady-load.ts';
import { TestCluster } from '../test-cluster.ts';

const flynnHost = resolve(import.meta.dirname, '../../bin/flynn-host');
const outside = '192.0.2.7';
const mebibyte = 2 ** 20;
const quotaBytes = 64 * mebibyte;
/** Of one put; what it replaces stays as history. */
const valueBytes = mebibyte;
const healMs = 180_000;

suite('what a cluster stands on gives way', () => {
  let cluster: TestCluster;
  let resolver: Resolver;
  before(async () => {
    cluster = await TestCluster.create(60, { hosts: 3 });
    resolver = await startResolver(cluster.host.gateway);
    await cluster.upFirst({ env: { FLYNN_DNS_UPSTREAMS: `${cluster.host.gateway}:${resolver.port}` } });
    await cluster.joinOthers();
    await cluster.flynn(['-a', 'hello', 'scale', 'web=3']);
    await cluster.untilHealthy();
  });
  after(async () => {
    await resolver?.[Symbol.asyncDispose]();
    await cluster?.[Symbol.asyncDispose]();
  });

  test('no resolver answers: names of the cluster are answered all the same, others fail, and not for ever', async (t) => {
    const ask = (name: string): Promise<Asked> => addressOf(cluster, name);
    assert.equal((await ask('outside.test')).address, outside);
    resolver.isSilent = true;
    let hasFailed = false;
    const away = ask('outside.test').finally(() => (hasFailed = true));
    const inside = await ask('hello-web.flynn');
    assert.match(inside.address ?? '', /^100\.100\./);
    assert.equal(hasFailed, false, 'a name of the cluster waited for one from outside');
    const [first, next] = [await away, await ask('outside.test')];
    assert.deepEqual([first.address, next.address], [undefined, undefined]);
    t.diagnostic(
      `a name of the cluster took ${inside.ms} ms, one from outside failed after ${first.ms}, then ${next.ms} ms`,
    );
    assert.ok(next.ms < 30_000, 'people gave up before');
    resolver.isSilent = false;
    await waitFor(async () => (await ask('outside.test')).address === outside, {
      what: 'names from outside to be answered again',
      deadlineMs: 60_000,
    });
  });

  test('etcd fills with history: it is told, and history goes before nothing can be written', async (t) => {
    for (const host of cluster.hosts) {
      await host.limitStore(quotaBytes);
      await cluster.untilHealthy();
    }
    await using store = await cluster.store();
    const percents: number[] = [];
    await waitFor(
      async () => {
        for (let puts = 0; puts < 4; puts += 1) await fill(store);
        percents.push(...(await quotaPercents(cluster)));
        return percents.some((percent) => percent >= 80);
      },
      { what: 'the store to be nearly full', deadlineMs: 120_000, intervalMs: 0 },
    );
    const startedMs = performance.now();
    const isTold = async (): Promise<boolean> => (await quotaPercents(cluster)).length > 0;
    await waitFor(async () => !(await isTold()), { what: 'room in the store', deadlineMs: healMs, intervalMs: 1_000 });
    t.diagnostic(`told from ${percents[0]} % on; room again ${secondsSince(startedMs)} s after ${percents.at(-1)} %`);
    await fill(store);
  });

  test('etcd is full: it is told, what runs runs on, and it takes writes again by itself', async (t) => {
    await using store = await cluster.store();
    const load = startSteadyLoad((signal) => cluster.get('hello', '/', { signal }), {
      lanes: 2,
      pauseMs: 50,
      maxMs: healMs,
    });
    const isFull = (error: unknown): boolean => hasCode(error, 'exhausted');
    await assert.rejects(async () => {
      for (let puts = 0; puts * valueBytes < 2 * quotaBytes; puts += 1) await fill(store);
    }, isFull);
    const startedMs = performance.now();
    const { stdout } = await cluster.exec([flynnHost, '--state-dir', cluster.host.stateDir, 'doctor'], { code: 2 });
    assert.match(stdout, /no room left.*NOSPACE/);
    await waitFor(
      async () => {
        await fill(store);
        return true;
      },
      { what: 'the store to take writes', deadlineMs: healMs, intervalMs: 500 },
    );
    t.diagnostic(`nothing could be written for ${secondsSince(startedMs)} s`);
    await cluster.flynn(['-a', 'hello', 'scale', 'web=2']);
    const { failures, requests } = await load.stop();
    assert.deepEqual(failures, []);
    assert.ok(requests > 50, `only ${requests} requests`);
  });
});

type Resolver = AsyncDisposable & { readonly port: number; isSilent: boolean };

/** Whatever is asked has the same address. */
async function startResolver(address: string): Promise<Resolver> {
  const socket = createSocket('udp4').bind(0, address);
  await once(socket, 'listening');
  const resolver: Resolver = {
    port: socket.address().port,
    isSilent: false,
    [Symbol.asyncDispose]: async () => void socket.close(),
  };
  socket.on('message', (query, from) => {
    if (resolver.isSilent) return;
    const { id = 0, questions = [] } = decode(query);
    const answers = questions.flatMap(({ name, type }) => (type === 'A' ? [{ type, name, data: outside }] : []));
    socket.send(encode({ type: 'response', id, questions, answers }), from.port, from.address);
  });
  return resolver;
}

type Asked = { address: string | undefined; ms: number };

/** As an app on the first host asks. */
async function addressOf(cluster: TestCluster, name: string): Promise<Asked> {
  const [container = ''] = await cluster.containers('hello', 'web');
  const startedMs = performance.now();
  const command = [
    'docker',
    '-H',
    `unix://${cluster.host.dockerSocket}`,
    'exec',
    container,
    'getent',
    'ahostsv4',
    name,
  ];
  const { stdout } = await cluster.exec(['nice', ...command], { code: 'any' });
  return { address: stdout.split(/\s/)[0] || undefined, ms: Math.round(performance.now() - startedMs) };
}

async function fill(store: Store): Promise<void> {
  const value = randomBytes(valueBytes / 2).toString('hex');
  await store.transact({ then: [{ put: '/flynn/resource/filling/one', value }] });
}

/** Of members that doctors have something to say about. */
async function quotaPercents(cluster: TestCluster): Promise<number[]> {
  const command = [flynnHost, '--state-dir', cluster.host.stateDir, 'doctor', '--json'] as const;
  const { stdout } = await cluster.exec(command, { code: 'any' });
  return [...stdout.matchAll(/takes (\d+) % of its quota/g)].map(([, percent]) => Number(percent));
}

const secondsSince = (startedMs: number): string => ((performance.now() - startedMs) / 1_000).toFixed(1);
