import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { apps, deployments, formations, releases } from '../api.ts';
import { routing } from '../routes/api.ts';
import { generic } from './api.ts';
import { callsTo, flynn, invalid, paths } from './testing.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';

let world: TestController;
before(async () => {
  world = await startTestController();
});
after(async () => {
  await world[Symbol.asyncDispose]();
});

const { apply, get } = callsTo(() => world.client);

async function rolledOut(deploymentId: string | undefined): Promise<void> {
  assert.ok(deploymentId !== undefined);
  const ended = await world.endOf(deploymentId);
  assert.equal(ended.state, 'complete', ended.error);
}

const shop = {
  name: 'shop',
  labels: { team: 'sales' },
  spec: {
    image: 'test/shop:1',
    env: { GREETING: 'hello', EMPTY: '' },
    processes: {
      web: { count: 2, memory: '256MB', disk: '2GB', pidsLimit: 500, cpuMillis: 250, ports: [{ port: 8080 }] },
      worker: { count: 1, command: ['work'], links: ['db-postgres'] },
    },
    routes: [{ domain: 'Shop.Example.com', path: '/buy/' }, { port: 3333 }],
  },
};

test('an app is one file: made, rolled out, scaled and routed; the same again changes nothing', async () => {
  const made = await apply('App', shop);
  assert.equal(made.outcome, 'created');
  await rolledOut(made.deploymentId);
  await world.jobsOf('shop', 3);
  const release = await world.client.call(releases.get, { params: { app: 'shop', release: 'v1' } });
  assert.equal(release.processes['web']?.memoryBytes, 256 * 1024 ** 2);
  assert.deepEqual(release.processes['worker']?.links, ['db-postgres']);
  const routes = await world.client.call(routing.list, { params: { app: 'shop' } });
  assert.deepEqual(routes.map(({ domain, path, port }) => String(port ?? `${domain}${path}`)).sort(), [
    '3333',
    'shop.example.com/buy',
  ]);
  const again = await apply('App', shop);
  assert.deepEqual([again.outcome, again.changes, again.deploymentId], ['unchanged', [], undefined]);
  const shown = await get('App', 'shop');
  assert.deepEqual(shown.spec, {
    meta: {},
    deployTimeoutMs: 120_000,
    image: 'test/shop:1',
    env: { GREETING: 'hello', EMPTY: '' },
    processes: {
      web: {
        count: 2,
        memoryBytes: 256 * 1024 ** 2,
        tempDiskBytes: 2 * 1024 ** 3,
        pidsLimit: 500,
        cpuMillis: 250,
        ports: [{ port: 8080, protocol: 'tcp' }],
      },
      worker: { count: 1, command: ['work'], links: ['db-postgres'] },
    },
    routes: [
      { domain: 'shop.example.com', path: '/buy', service: 'shop-web' },
      { port: 3333, service: 'shop-web' },
    ],
  });
  const back = await world.client.call(generic.put, { params: { ...flynn('App'), name: 'shop' }, body: shown });
  assert.equal(back.outcome, 'unchanged');
  assert.equal((await world.client.call(apps.get, { params: { app: 'shop' } })).id, shown.metadata.id);
});

test('a count alone makes no release; another variable does; what is left out stays', async () => {
  const scaled = await apply('App', { name: 'shop', spec: { processes: { web: { count: 3 } } } });
  assert.deepEqual([paths(scaled), scaled.deploymentId], [['spec.processes.web.count'], undefined]);
  await world.jobsOf('shop', 4);
  const would = await apply('App', { name: 'shop', spec: { env: { GREETING: 'bye' } } }, { dryRun: true });
  assert.deepEqual(would.changes, [
    { path: 'spec.env.EMPTY', before: '' },
    { path: 'spec.env.GREETING', before: 'hello', after: 'bye' },
  ]);
  assert.equal((await world.client.call(releases.list, { params: { app: 'shop' } })).length, 1);
  const changed = await apply('App', { name: 'shop', spec: { env: { GREETING: 'bye' } } });
  await rolledOut(changed.deploymentId);
  const live = await get('App', 'shop');
  assert.deepEqual(live.spec['env'], { GREETING: 'bye' });
  assert.equal(Object(live.spec['processes'])['web'].count, 3);
  assert.deepEqual(live.labels, { team: 'sales' });
});

test('routes are those of the file: a place that is not in it goes, a service is moved', async () => {
  const routes = [{ domain: 'shop.example.com', path: '/buy', service: 'shop-worker' }];
  const changed = await apply('App', { name: 'shop', spec: { routes } });
  assert.equal(changed.outcome, 'configured');
  const left = await world.client.call(routing.list, { params: { app: 'shop' } });
  assert.deepEqual(
    left.map(({ domain, path, service }) => ({ domain, path, service })),
    routes,
  );
  const taken = apply('App', { name: 'other', spec: { routes } }, { dryRun: true });
  await assert.rejects(taken, invalid(/spec\.routes\.0: another app answers at shop\.example\.com\/buy already/));
});

test('a file sets all that a route can be set to; what it leaves out stays, null takes back, what is wrong is told', async () => {
  const place = { domain: 'shop.example.com', path: '/buy', service: 'shop-worker' };
  const tcp = { port: 3334, service: 'shop-worker' };
  const settings = {
    sticky: true,
    limits: { bodyBytes: 1_000, requestsPerSecond: 5 },
    timeouts: { idleMs: 9_000 },
    pages: { '503': '<p>down</p>' },
    https: { redirect: true, hstsSeconds: 60 },
    canonicalHost: 'www.example.com',
  };
  const weights = [{ release: 'v1', weight: 1 }];
  const routes = [
    { ...place, http: { ...settings, weights } },
    { ...tcp, tcp: { leader: true, idleMs: 5_000 } },
  ];
  const would = await apply('App', { name: 'shop', spec: { routes } }, { dryRun: true });
  assert.match(JSON.stringify(would.changes), /"requestsPerSecond":5.*"leader":true/);
  assert.equal((await apply('App', { name: 'shop', spec: { routes } })).outcome, 'configured');
  assert.equal((await apply('App', { name: 'shop', spec: { routes } })).outcome, 'unchanged');
  const read = async (route: string) => world.client.call(routing.get, { params: { app: 'shop', route } });
  const { http } = await read('shop.example.com/buy');
  assert.deepEqual([http.limits, http.pages, http.weights.length], [settings.limits, settings.pages, 1]);
  assert.deepEqual((await read('tcp:3334')).tcp, { leader: true, idleMs: 5_000 });
  // Of another cluster nobody knows these releases: what is shown can be applied there.
  const shown = await get('App', 'shop');
  assert.deepEqual(shown.spec['routes'], [{ ...place, http: settings }, routes[1]]);

  const less = [{ ...place, http: { sticky: null, limits: { requestsPerSecond: null } } }, tcp];
  const changed = await apply('App', { name: 'shop', spec: { routes: less } });
  assert.deepEqual(paths(changed), ['spec.routes']);
  const after = (await read('shop.example.com/buy')).http;
  assert.deepEqual([after.sticky, after.limits, after.timeouts], [false, { bodyBytes: 1_000 }, { idleMs: 9_000 }]);
  assert.equal((await read('tcp:3334')).tcp.leader, true);

  for (const [wrong, expected] of [
    [{ http: { https: { hstsSeconds: 5, redirect: false } } }, /spec\.routes\.0\.http\.https\.hstsSeconds/],
    [
      { http: { weights: [{ release: 'v99', weight: 1 }] } },
      /spec\.routes\.0\.http\.weights\.0\.release.*no release "v99"/,
    ],
    [{ tcp: { leader: true } }, /spec\.routes\.0\.tcp: these settings are for tcp routes/],
    [{ http: { canonicalHost: '*.example.com' } }, /spec\.routes\.0\.http\.canonicalHost/],
  ] as const) {
    await assert.rejects(apply('App', { name: 'shop', spec: { routes: [{ ...place, ...wrong }] } }), invalid(expected));
  }
  const early = apply('App', { name: 'early', spec: { routes: [{ domain: 'early.example.com', http: { weights } }] } });
  await assert.rejects(early, invalid(/spec\.routes\.0\.http\.weights: an app that is to be made has no releases/));
  await apply('App', { name: 'shop', spec: { routes: [place] } });
});

test('while a deployment is under way nothing of what runs is changed, and asking what would be says so', async () => {
  world.setBehaviour(({ template: { image } }) => ({
    is: 'name' in image && image.name === 'slow:1' ? 'hang' : 'run',
  }));
  const slow = (image: string) => ({ name: 'slow', spec: { image, processes: { web: { count: 1 } } } });
  const made = await apply('App', slow('slow:1'));
  assert.ok(made.deploymentId !== undefined);
  for (const query of [{ dryRun: true }, {}]) {
    const again = apply('App', slow('slow:2'), query);
    await assert.rejects(again, (error) => hasCode(error, 'conflict') && /apply it again once/.test(error.message));
  }
  const meta = await apply('App', { name: 'slow', spec: { meta: { note: 'fine' } } });
  assert.equal(meta.outcome, 'configured');
  world.setBehaviour(() => ({ is: 'run' }));
});

test('a process may be called as every object has something of', async () => {
  const spec = { processes: { constructor: { count: 2 } } };
  assert.equal((await apply('App', { name: 'odd', labels: { constructor: 'x' }, spec })).outcome, 'created');
  assert.equal((await apply('App', { name: 'odd', labels: { constructor: 'x' }, spec })).outcome, 'unchanged');
  const shown = await get('App', 'odd');
  assert.deepEqual([shown.spec['processes'], shown.labels], [{ constructor: { count: 2 } }, { constructor: 'x' }]);
});

test('an app without anything to run is prepared for its first push', async () => {
  const made = await apply('App', { name: 'coming', spec: { env: { A: '1' } } });
  assert.deepEqual([made.outcome, made.deploymentId], ['created', undefined]);
  assert.match(made.notes.join(), /first push/);
  assert.deepEqual((await world.client.call(releases.get, { params: { app: 'coming', release: 'v1' } })).env, {
    A: '1',
  });
  const plain = await apply('App', { name: 'bare', spec: {} });
  assert.deepEqual([plain.outcome, plain.notes], ['created', []]);
  assert.equal((await apply('App', { name: 'bare', spec: {} })).outcome, 'unchanged');
});

const wrong: [string, object, RegExp][] = [
  ['a name', { name: 'No Good' }, /\n {2}name: an app name is/],
  ['no name', {}, /\n {2}name: an app has a name/],
  ['an unknown field', { name: 'x', spec: { envv: {} } }, /spec\.envv: there is no such field/],
  ['a field of a process', { name: 'x', spec: { processes: { web: { memori: 1 } } } }, /spec\.processes\.web\.memori:/],
  ['a count', { name: 'x', spec: { processes: { web: { count: -1 } } } }, /spec\.processes\.web\.count: /],
  ['an amount', { name: 'x', spec: { processes: { web: { memory: '5' } } } }, /web\.memory: .*like 512MB/],
  [
    'an amount of disk',
    { name: 'x', spec: { processes: { web: { disk: '5' } } } },
    /web\.disk: .*disk is .*like 512MB/,
  ],
  ['a variable', { name: 'x', spec: { env: { '1A': '' } } }, /spec\.env\.1A/],
  ['an image', { name: 'x', spec: { image: 'flynn-test/image:1' } }, /spec\.image: .* names no image of a registry/],
  ['a domain', { name: 'x', spec: { routes: [{ domain: 'a b' }] } }, /spec\.routes\.0\.domain: "a b" is not a host/],
  ['a route without a place', { name: 'x', spec: { routes: [{}] } }, /spec\.routes\.0: a route has a domain/],
  ['a place twice', { name: 'x', spec: { routes: [{ port: 3001 }, { port: 3001 }] } }, /spec\.routes\.1: tcp:3001 is/],
];
for (const [what, body, pattern] of wrong) {
  test(`${what} that is wrong is told with its place, and no app is made`, async () => {
    await assert.rejects(apply('App', body), invalid(pattern));
    const all = await world.client.call(apps.list, {});
    assert.equal(
      all.find(({ name }) => name === 'x'),
      undefined,
    );
  });
}

test('a part of the platform is not deleted here either; an app says what its deletion waits for', async () => {
  await world.client.call(apps.create, { body: { name: 'part', isSystem: true } });
  const remove = (name: string) => world.client.call(generic.remove, { params: { ...flynn('App'), name } });
  await assert.rejects(
    remove('part'),
    (error) => hasCode(error, 'denied') && /part of the platform/.test(error.message),
  );
  world.setBehaviour(() => ({ is: 'run' }));
  const { app } = await world.deployApp('leaving', { web: {} });
  await world.jobsOf('leaving', 1);
  const going = await remove('leaving');
  assert.deepEqual([going.outcome, going.object.metadata.finalizers], ['deleting', ['controller']]);
  await waitFor(async () => (await world.store.get(`/flynn/resource/app/${app.id}`)) === undefined, {
    what: 'the app to be gone',
    deadlineMs: 60_000,
  });
});

test('what a file leaves out is what others make of it while it is applied', async () => {
  await using world = await startTestController();
  const { client, store } = world;
  const params = { app: 'shared' };
  const applied = (spec: Record<string, unknown>) =>
    client.call(generic.apply, { params: flynn('App'), body: { name: 'shared', spec } });
  await client.call(generic.apply, {
    params: flynn('App'),
    body: {
      name: 'shared',
      labels: { team: 'sales' },
      spec: { image: 'test/shop:1', processes: { web: { count: 1 }, worker: { count: 1 } } },
    },
  });
  await world.jobsOf('shared', 2);
  const isThrough = async () => (await client.call(deployments.list, { params })).every(({ endedAt }) => endedAt);
  await waitFor(isThrough, { what: 'the end of the deployment', deadlineMs: 60_000, intervalMs: 10 });

  const list = store.list.bind(store);
  /** Once the file's app has been read, as it is looked whether its routes are free. */
  const meanwhile = (act: () => Promise<unknown>) => {
    const { promise, resolve } = Promise.withResolvers<unknown>();
    let asked = 0;
    store.list = async (prefix, options) => {
      if (prefix === '/flynn/resource/route/') asked += 1;
      if (asked < 2) return list(prefix, options);
      store.list = list;
      resolve(act());
      await promise;
      return list(prefix, options);
    };
    return promise;
  };
  const scale = (release: string, counts: Record<string, number>) =>
    client.call(formations.put, { params: { ...params, release }, body: { processes: counts } });
  const isChanged = meanwhile(async () => {
    await client.call(apps.update, { params, body: { metaChange: { note: 'mine' }, deployTimeoutMs: 50_000 } });
    await client.call(routing.create, { params, body: { domain: 'mine.example.com' } });
    await scale('v1', { worker: 3 });
  });
  assert.deepEqual(paths(await applied({ processes: { web: { count: 2 } } })), ['spec.processes.web.count']);
  await isChanged;
  const app = await client.call(apps.get, { params });
  assert.deepEqual([app.meta, app.deployTimeoutMs], [{ note: 'mine' }, 50_000]);
  assert.deepEqual((await client.call(formations.get, { params: { ...params, release: 'v1' } })).processes, {
    web: 2,
    worker: 3,
  });
  const domains = (await client.call(routing.list, { params })).map(({ domain }) => domain);
  assert.ok(domains.includes('mine.example.com'));

  const isScaled = meanwhile(() => scale('v1', { worker: 4 }));
  const next = await applied({ env: { A: '1' }, processes: { web: { count: 1 } } });
  await isScaled;
  assert.ok(next.deploymentId !== undefined);
  await waitFor(isThrough, { what: 'the end of the deployment', deadlineMs: 60_000, intervalMs: 10 });
  assert.deepEqual((await client.call(formations.get, { params: { ...params, release: 'v2' } })).processes, {
    web: 1,
    worker: 4,
  });
});

test('before anything of an app is live a file that changes what is to run keeps its counts', async () => {
  await apply('App', { name: 'later', spec: { processes: { web: { count: 2 }, worker: { count: 3 } } } });
  await apply('App', { name: 'later', spec: { env: { A: '1' } } });
  const shown = await get('App', 'later');
  assert.deepEqual(shown.spec['processes'], { web: { count: 2 }, worker: { count: 3 } });
});
