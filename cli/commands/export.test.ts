import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import { readFile, readdir, stat, writeFile } from 'node:fs/promises';
import { createServer, request as forward } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { tokens, users } from '@flynn/controller/access/api';
import { apps, formations, releases } from '@flynn/controller/api';
import { autoscales } from '@flynn/controller/autoscale/api';
import type { Artifact } from '@flynn/controller/model';
import { routing } from '@flynn/controller/routes/api';
import { startTestBlobs } from '@flynn/controller/testing/blobs';
import { waitFor } from '@flynn/kit/retry';
import { appFileOf, readAppFile } from '../apps/file.ts';
import { loadClusters, saveClusters } from '../clusters/clusters.ts';
import { runCli } from '../program.ts';
import { openDeskWithController } from '../testing.ts';

type Place = Awaited<ReturnType<typeof openDeskWithController>> & {
  blobs: Awaited<ReturnType<typeof startTestBlobs>>['blobs'];
};

/** A cluster with a blob store of its own. */
async function openCluster(): Promise<Place> {
  const store = await startTestBlobs();
  const env = await openDeskWithController({ blobStoreUrl: store.url });
  return {
    ...env,
    blobs: store.blobs,
    async [Symbol.asyncDispose]() {
      await env[Symbol.asyncDispose]();
      await store[Symbol.asyncDispose]();
    },
  };
}

/** An app of a slug of two layers that was built, with env, counts and a route of its own. */
async function prepare({ controller, desk, blobs }: Place): Promise<{ digests: string[]; record: string }> {
  const { client } = controller;
  await desk.run(['create', 'shop', '-r', '']);
  const parts = await Promise.all([blobs.put('runtime'), blobs.put(Buffer.alloc(3_000_000, 7))]);
  const image = { base: 'slug-runner', layers: parts };
  const { digest: record } = await blobs.put('what a build left');
  const made = { type: 'slug' as const, image, meta: { result: record, buildpack: 'node' } };
  const artifact = await client.call(releases.createArtifact, { body: made });
  const params = { app: 'shop' };
  const body = { artifactId: artifact.id, processes: { web: {}, worker: {} }, env: { A: 'one\ntwo' } };
  const release = await client.call(releases.create, { params, body });
  await controller.deploy('shop', release.id);
  await client.call(formations.put, { params: { ...params, release: release.id }, body: { processes: { worker: 2 } } });
  await client.call(routing.create, {
    params,
    body: {
      domain: 'shop.example.com',
      http: { sticky: true, weights: [{ release: release.id, weight: 1 }], maintenance: {} },
    },
  });
  await desk.run(['-a', 'shop', 'deployment', 'strategy', 'one-by-one']);
  await desk.run(['-a', 'shop', 'autoscale', 'set', 'worker', '--max', '7', '--cpu', '60%']);
  return { digests: parts.map(({ digest }) => digest), record };
}

test('an app that did not let in everybody lets in nobody elsewhere until it is said who', async () => {
  await using from = await openCluster();
  await using to = await openCluster();
  await prepare(from);
  const closed = ['-a', 'shop', 'route', 'update'];
  for (const place of ['shop.flynn.localhost', 'shop.example.com']) {
    const { code, stderr } = await from.desk.run([...closed, place, '--user', 'ann'], { input: 'open sesame' });
    assert.equal(code, 0, stderr);
  }
  const file = join(from.desk.home, 'shop.tar');
  await from.desk.run(['-a', 'shop', 'export', file]);
  assert.doesNotMatch(await readFile(file, 'latin1'), /scrypt/);
  const imported = await to.desk.run(['import', file]);
  assert.equal(imported.code, 0, imported.stderr);
  assert.match(imported.stderr, /in maintenance until it is said who gets in.*route update PLACE --user NAME -a shop/);
  assert.match(imported.stderr, /left out the route shop\.example\.com\/[^]*users\.ann: it has no password here/);
  const routes = await to.controller.client.call(routing.list, { params: { app: 'shop' } });
  assert.deepEqual(
    routes.map(({ domain, http }) => [domain, http.maintenance]),
    [['shop.flynn.localhost', { allow: [] }]],
  );
});

test('an app goes as one file to another cluster, and is there what it was', async () => {
  await using from = await openCluster();
  await using to = await openCluster();
  await prepare(from);
  const file = join(from.desk.home, 'shop.tar');
  const exported = await from.desk.run(['-a', 'shop', 'export', file]);
  assert.equal(exported.code, 0, exported.stderr);
  assert.equal((await stat(file)).mode & 0o777, 0o600);
  const imported = await to.desk.run(['import', file]);
  assert.equal(imported.code, 0, imported.stderr);
  const { client } = to.controller;
  const app = await client.call(apps.get, { params: { app: 'shop' } });
  assert.equal(app.rollout?.strategy, 'one-by-one');
  const release = await client.call(releases.get, { params: { app: 'shop', release: app.releaseId ?? '' } });
  assert.deepEqual(release.env, { A: 'one\ntwo' });
  await to.controller.jobsOf('shop', 3);
  const [scaled] = await client.call(autoscales.list, { params: { app: 'shop' } });
  assert.deepEqual([scaled?.type, scaled?.min, scaled?.max, scaled?.cpuPercent], ['worker', 1, 7, 60]);
  const routes = await client.call(routing.list, { params: { app: 'shop' } });
  assert.deepEqual(new Set(routes.map(({ domain }) => domain)), new Set(['shop.example.com', 'shop.flynn.localhost']));
  const kept = routes.find(({ domain }) => domain === 'shop.example.com')?.http;
  assert.deepEqual([kept?.sticky, kept?.weights, kept?.maintenance], [true, [], undefined]);
  const digests = async ({ blobs }: Place) => (await Array.fromAsync(blobs.list())).map(({ digest }) => digest);
  assert.deepEqual(await digests(to), await digests(from));
  const again = await to.desk.run(['import', '-n', 'copy', '-'], { input: '' });
  assert.match(again.stderr, /no file that "flynn export" wrote: there is no flynn-app\.json/);
  const second = await to.desk.run(['import', '-n', 'copy', '--no-deploy', file]);
  assert.equal(second.code, 0, second.stderr);
  assert.match(second.stderr, /left out the route shop\.example\.com\//);
});

/** What people do there is this user's from now on, who makes apps and is admin of nothing. */
async function actAsDeveloper({ controller: { client }, desk }: Place): Promise<void> {
  await client.call(users.create, { body: { name: 'ada', role: 'developer' } });
  const { token } = await client.call(tokens.create, { body: { name: 'laptop', user: 'ada' } });
  const { clusters, ...rest } = await loadClusters(desk.configDirectory);
  const [cluster] = clusters;
  assert.ok(cluster);
  await saveClusters(desk.configDirectory, { ...rest, clusters: [{ ...cluster, key: token }] });
}

async function artifactOf({ controller: { client } }: Place, app: string): Promise<Artifact> {
  const [release] = await client.call(releases.list, { params: { app } });
  return client.call(releases.getArtifact, { params: { artifact: release?.artifactId ?? '' } });
}

test('a developer imports what was built elsewhere, with the record of its build', async () => {
  await using from = await openCluster();
  await using to = await openCluster();
  const { record } = await prepare(from);
  const file = join(from.desk.home, 'shop.tar');
  await actAsDeveloper(from);
  assert.equal((await from.desk.run(['-a', 'shop', 'export', file])).code, 0);
  await actAsDeveloper(to);
  const imported = await to.desk.run(['import', file]);
  assert.equal(imported.code, 0, imported.stderr);
  assert.deepEqual((await artifactOf(to, 'shop')).meta, { result: record, buildpack: 'node' });
  assert.equal(await text(await to.blobs.get(record)), 'what a build left');
});

test('of a build whose record is lost, or not in the file, as before it was, the app comes without one', async () => {
  await using from = await openCluster();
  await using to = await openCluster();
  const { record } = await prepare(from);
  await actAsDeveloper(to);
  const exported = join(from.desk.home, 'shop.tar');
  assert.equal((await from.desk.run(['-a', 'shop', 'export', exported])).code, 0);
  const named = await readAppFile(createReadStream(exported), async (_app, _digest, body) => void body.resume());
  assert.equal(named.artifact.meta['result'], record);
  const earlier = join(from.desk.home, 'earlier.tar');
  await writeFile(earlier, appFileOf(named, { record: undefined, open: (digest) => from.blobs.get(digest) }));
  await from.blobs.remove(record);
  const later = join(from.desk.home, 'later.tar');
  assert.equal((await from.desk.run(['-a', 'shop', 'export', later])).code, 0);
  for (const [name, file] of Object.entries({ earlier, later })) {
    const imported = await to.desk.run(['import', '--no-deploy', '-n', name, file]);
    assert.equal(imported.code, 0, imported.stderr);
    assert.deepEqual((await artifactOf(to, name)).meta, { buildpack: 'node' });
  }
});

type Refusal = { status: number; code: string; message: string };

/** What people ask of that cluster is asked of this one from now on, which refuses some of it. */
async function refuseAt(
  t: TestContext,
  to: Place,
  refusalOf: (method: string, url: string) => Refusal | undefined,
): Promise<void> {
  const before = createServer((request, response) => {
    const refusal = refusalOf(request.method ?? '', request.url ?? '');
    if (refusal !== undefined) {
      const { status, ...body } = refusal;
      request.resume();
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify(body));
      return;
    }
    const { method, headers, url = '/' } = request;
    const passed = forward(new URL(url, to.controller.url), { method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(response);
    });
    request.pipe(passed);
  });
  before.listen(0, '127.0.0.1');
  await once(before, 'listening');
  t.after(() => {
    before.closeAllConnections();
    before.close();
  });
  const address = before.address();
  assert.ok(typeof address === 'object' && address !== null);
  const { clusters, ...rest } = await loadClusters(to.desk.configDirectory);
  const [cluster] = clusters;
  assert.ok(cluster);
  await saveClusters(to.desk.configDirectory, {
    ...rest,
    clusters: [{ ...cluster, controllerUrl: `http://127.0.0.1:${address.port}` }],
  });
}

test('a controller of a version without autoscaling gets the app all the same, and what it lacks is told', async (t) => {
  await using from = await openCluster();
  await using to = await openCluster();
  await prepare(from);
  const file = join(from.desk.home, 'shop.tar');
  assert.equal((await from.desk.run(['-a', 'shop', 'export', file])).code, 0);
  const nothing = { status: 404, code: 'not_found', message: 'there is nothing here' };
  await refuseAt(t, to, (_method, url) => (/\/autoscale(?:\/|$)/.test(url) ? nothing : undefined));
  const imported = await to.desk.run(['import', '--no-deploy', file]);
  assert.equal(imported.code, 0, imported.stderr);
  assert.match(imported.stderr, /left out that worker is scaled by itself: /);
  const routes = await to.controller.client.call(routing.list, { params: { app: 'shop' } });
  assert.ok(routes.some(({ domain }) => domain === 'shop.example.com'));
});

test('an import that fails or is stopped half-way leaves nothing in the way of the next', async (t) => {
  await using from = await openCluster();
  await using to = await openCluster();
  await prepare(from);
  const { client } = to.controller;
  const file = join(from.desk.home, 'shop.tar');
  assert.equal((await from.desk.run(['-a', 'shop', 'export', file])).code, 0);
  let isRefused = (method: string, url: string): boolean => method === 'PUT' && url.includes('/formation');
  const broken = { status: 500, code: 'internal', message: 'the disk is full' };
  await refuseAt(t, to, (method, url) => (isRefused(method, url) ? broken : undefined));
  const failed = await to.desk.run(['import', file]);
  assert.equal(failed.code, 1);
  assert.match(failed.stderr, /^flynn: the disk is full\n {2}shop, which was not whole yet, is deleted again: import/m);
  assert.deepEqual(await client.call(apps.list, {}), []);

  const io = to.desk.io();
  io.stdin.end();
  isRefused = (method, url) => {
    if (method === 'POST' && url === '/apps') io.signal('SIGINT');
    return false;
  };
  assert.equal(await runCli(['import', file], io), 1);
  assert.match(io.stderr.text, /^flynn: stopped\n {2}shop, which was not whole yet, is deleted again/m);
  assert.deepEqual(await client.call(apps.list, {}), []);

  isRefused = (method, url) => (method === 'PUT' && url.includes('/formation')) || method === 'DELETE';
  const left = await to.desk.run(['import', '-n', 'copy', file]);
  assert.match(
    left.stderr,
    /copy is there and not whole, and could not be deleted: the disk is full\n +"flynn delete -a copy"/,
  );
  isRefused = () => false;
  const taken = await to.desk.run(['import', '-n', 'copy', file]);
  assert.match(taken.stderr, /the name copy is taken/);
  assert.equal((await client.call(apps.list, {})).length, 1, 'what it did not make stays');
  const again = await to.desk.run(['import', file]);
  assert.equal(again.code, 0, again.stderr);
});

test('what is at a former domain of the cluster only because that still answers is not in the file', async () => {
  await using store = await startTestBlobs();
  await using env = await openDeskWithController({
    blobStoreUrl: store.url,
    // One within the other: a name is of the longest.
    domain: 'apps.example.com',
    formerDomains: ['old.test', 'example.com'],
  });
  await prepare({ ...env, blobs: store.blobs });
  const given = ['shop.old.test', 'shop.example.com', 'api.apps.example.com', 'api.old.test', 'alone.old.test'];
  const { client } = env.controller;
  const there = await client.call(routing.list, { params: { app: 'shop' } });
  const missing = given.filter((domain) => there.every((route) => route.domain !== domain));
  for (const domain of missing) await client.call(routing.create, { params: { app: 'shop' }, body: { domain } });
  await client.call(routing.create, { params: { app: 'shop' }, body: { domain: 'shop.old.test', path: '/api' } });
  const file = join(env.desk.home, 'shop.tar');
  const exported = await env.desk.run(['-a', 'shop', 'export', file]);
  assert.equal(exported.code, 0, exported.stderr);
  const { routes } = await readAppFile(createReadStream(file), async (_app, _digest, body) => void body.resume());
  assert.deepEqual(routes.map(({ domain, path }) => `${domain}${path}`).toSorted(), [
    'alone.old.test/',
    'api.apps.example.com/',
    'shop.old.test/api',
  ]);
});

test('two exports of one name are each whole, what was readable before is no more, and a place that is no file is refused', async () => {
  await using from = await openCluster();
  await prepare(from);
  const file = join(from.desk.home, 'shop.tar');
  await writeFile(file, 'before', { mode: 0o644 });
  await writeFile(`${file}.part`, 'somebody else’s');
  const both = await Promise.all([1, 2].map(() => from.desk.run(['-a', 'shop', 'export', file])));
  for (const { code, stderr } of both) assert.equal(code, 0, stderr);
  assert.equal((await stat(file)).mode & 0o777, 0o600);
  const { app } = await readAppFile(createReadStream(file), async (_app, _digest, body) => void body.resume());
  assert.equal(app.name, 'shop');
  assert.equal(await readFile(`${file}.part`, 'utf8'), 'somebody else’s');
  const refused = await from.desk.run(['-a', 'shop', 'export', 'no/where.tar']);
  assert.deepEqual([refused.code, /cannot write \S+no\/where\.tar/.test(refused.stderr)], [1, true], refused.stderr);
});

test('an export that is stopped, or that the cluster breaks off, leaves what was there', async () => {
  await using from = await openCluster();
  const { digests } = await prepare(from);
  const file = join(from.desk.home, 'shop.tar');
  await writeFile(file, 'before');
  const io = from.desk.io();
  io.stdin.end();
  const running = runCli(['-a', 'shop', 'export', file], io);
  await waitFor(() => io.signal('SIGINT') > 0, { what: 'the export to begin', deadlineMs: 30_000, intervalMs: 1 });
  assert.equal(await running, 1);
  assert.match(io.stderr.text, /^flynn: stopped: no file was written\n$/);

  for (const digest of digests) await from.blobs.remove(digest);
  const broken = await from.desk.run(['-a', 'shop', 'export', file]);
  assert.equal(broken.code, 1);
  assert.match(broken.stderr, /^flynn: the blob sha256:\w+ is not in the blob store\n$/);
  assert.equal(await readFile(file, 'utf8'), 'before');
  assert.deepEqual(
    (await readdir(from.desk.home)).filter((name) => name.endsWith('.part')),
    [],
  );
});

test('what is cut off or something else is refused before anything is made', async () => {
  await using from = await openCluster();
  await prepare(from);
  const file = join(from.desk.home, 'shop.tar');
  await from.desk.run(['-a', 'shop', 'export', file]);
  const bytes = await readFile(file);
  await writeFile(file, bytes.subarray(0, 1_000_000));
  const cut = await from.desk.run(['import', '-n', 'other', file]);
  assert.equal(cut.code, 1);
  assert.match(cut.stderr, /no file that "flynn export" wrote/);
  assert.match((await from.desk.run(['import', 'nosuch.tar'])).stderr, /^flynn: cannot read nosuch\.tar: /);
  await writeFile(file, 'something else, at length '.repeat(100));
  assert.match((await from.desk.run(['import', '-n', 'other', file])).stderr, /no file that "flynn export" wrote/);
  assert.equal((await from.controller.client.call(apps.list, {})).length, 1);
  assert.match((await from.desk.run(['-a', 'nobody', 'export'])).stderr, /there is no app "nobody"/);
});
