import assert from 'node:assert/strict';
import { mkdtemp, readFile, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { type Route, routeSchema } from '@flynn/controller/model';
import { createDiscoveryClient } from '@flynn/discovery/client';
import type { ServiceSet } from '@flynn/discovery/service-set';
import { HttpClient } from '@flynn/kit/http-client';
import { startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { freePort } from '@flynn/kit/testing-ports';
import { RememberedTable } from './remembered.ts';
import type { RememberedOptions } from './remembered.ts';
import { startRouter } from './router.ts';
import { ControlPlane, ask, settled, startBackend } from './testing.ts';

const log = silentLogger();
const waiting = { deadlineMs: 60_000, intervalMs: 5 };

async function folderOf(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'flynn-router-'));
  // A router that is stopped after it may write one more time.
  t.after(() => rm(folder, { recursive: true, maxRetries: 20, retryDelay: 50 }));
  return folder;
}

const open = (folder: string, more: Partial<RememberedOptions> = {}) =>
  RememberedTable.open({
    file: join(folder, 'table.jsonl'),
    key: 'k',
    log,
    restMs: 10,
    boot: async () => 'b1',
    ...more,
  });

async function start(folder: string, url: string) {
  const controller = new HttpClient({ baseUrl: url, name: 'the controller' });
  const discovery = createDiscoveryClient({ url });
  const remembered = await open(folder);
  const router = await startRouter({
    controller,
    discovery,
    host: '127.0.0.1',
    httpPort: 0,
    clusterKey: 'key',
    remembered,
    log,
  });
  return {
    router,
    async stop() {
      await router.stop({ drainMs: 0 });
      await controller.close();
      await discovery.close();
    },
  };
}

const ready = Promise.resolve();
const away = new Promise<void>(() => {});

/** With one instance of each service, once it is ready. */
const discoveryOf = (ready: Promise<void>, silentSinceMs: () => number | undefined = () => undefined) => ({
  openServiceSet: async (service: string): Promise<ServiceSet> => ({
    instances:
      ready === away ? [] : [{ id: 'j1', service, address: '127.0.0.1:1', attributes: {}, createdRevision: 1 }],
    leader: undefined,
    ready,
    onChange: () => () => {},
    get silentSinceMs() {
      return silentSinceMs();
    },
  }),
});

const routeOf = (id: string): Route =>
  routeSchema.parse({ id, appId: 'a', type: 'http', domain: `${id}.test`, service: 'web', createdAt: '' });

/** Writes what a router would that knows these routes, and answers what is in the file. */
async function write(folder: string, routes: readonly Route[], more: Partial<RememberedOptions> = {}): Promise<string> {
  const table = await open(folder, more);
  table.replace(routes);
  table.live(() => '12');
  const file = join(folder, 'table.jsonl');
  const stop = new AbortController();
  const running = table.run(stop.signal);
  await waitFor(async () => (await readFile(file, 'utf8')) !== '', { what: 'the file', ...waiting });
  stop.abort();
  await running;
  return readFile(file, 'utf8');
}

test('a router that starts while controller and discovery are away serves from its last known table, until they speak', async (t) => {
  const folder = await folderOf(t);
  const plane = new ControlPlane();
  const serve = (port: number) =>
    startServer({ name: 'plane', handlers: plane.handlers, host: '127.0.0.1', port, log });
  let server = await serve(await freePort());
  const { url, port } = server;
  const backend = await startBackend(t, (_request, response) => response.end('first'));
  const other = await startBackend(t, (_request, response) => response.end('second'));
  plane.setRoute({ id: 'r1', domain: 'app.test' });
  plane.setRoute({ id: 'r2', domain: 'gone.test' });
  plane.up('web', backend.address);
  const before = await start(folder, url);
  const get = async (at: number, host = 'app.test') => {
    const answer = await ask(at, { headers: { host } });
    return `${answer.statusCode} ${await text(answer)}`;
  };
  await settled(before.router, [backend.address]);
  assert.equal(await get(before.router.httpPort), '200 first');
  assert.equal(before.router.status().remembered, undefined);
  const isKept = async () => (await readFile(join(folder, 'table.jsonl'), 'utf8')).includes(backend.address);
  await waitFor(isKept, { what: 'the table to be kept', ...waiting });
  await before.stop();
  await server.close();

  const after = await start(folder, url);
  t.after(() => after.stop());
  const at = after.router.httpPort;
  assert.equal(await get(at), '200 first');
  const { remembered } = after.router.status();
  assert.deepEqual([remembered?.routes, remembered?.services], [true, ['web']]);
  assert.match(remembered?.savedAt ?? '', /^20/);
  plane.forgetRouteQuietly('r2');
  plane.down('web', backend.address);
  plane.up('web', other.address);
  server = await serve(port);
  t.after(() => server.close());
  await waitFor(() => after.router.status().remembered === undefined, { what: 'the live table', ...waiting });
  assert.equal(await get(at), '200 second');
  assert.match(await get(at, 'gone.test'), /^404/);
  const isWhole = async () => (await readdir(folder)).join() === 'table.jsonl';
  await waitFor(isWhole, { what: 'nothing half to be left', ...waiting });
});

test('routes are kept whole, many of them too, with what to go on from', async (t) => {
  const folder = await folderOf(t);
  const routes = Array.from({ length: 2_000 }, (_, index) => routeOf(`r${index}`));
  await write(folder, routes);
  const again = await open(folder);
  assert.deepEqual(again.routes, routes);
  assert.equal(again.revision, '12');
});

test('another release of the router goes on from nowhere: it may understand what this one left out', async (t) => {
  const folder = await folderOf(t);
  await write(folder, [routeOf('a')], { release: 'r1' });
  assert.equal((await open(folder, { release: 'r1' })).revision, '12');
  for (const release of ['r2', undefined]) {
    const other = await open(folder, { release });
    assert.equal(other.revision, undefined);
    assert.equal(other.routes?.length, 1);
  }
});

test('what was begun and never ended is cleared away, what is being written is not', async (t) => {
  const folder = await folderOf(t);
  const names = ['table.jsonl.old.tmp', 'table.jsonl.new.tmp', 'other.tmp'];
  for (const name of names) await writeFile(join(folder, name), '');
  const [old = ''] = names;
  await utimes(join(folder, old), 1, 1);
  await open(folder);
  assert.deepEqual(new Set(await readdir(folder)), new Set(names.slice(1)));
});

test('a file that was cut off, garbled or of another cluster is not used', async (t) => {
  const folder = await folderOf(t);
  const file = join(folder, 'table.jsonl');
  assert.equal((await open(folder)).routes, undefined);
  const whole = await write(folder, [routeOf('a'), routeOf('b')]);
  assert.equal((await open(folder)).routes?.length, 2);
  assert.equal((await open(folder, { key: 'other' })).routes, undefined);
  const lines = whole.trimEnd().split('\n');
  for (const [what, bad] of [
    ['cut off', lines.slice(0, -1).join('\n')],
    ['cut off within a line', whole.slice(0, 400)],
    ['empty', ''],
    ['a line missing', [lines[0], ...lines.slice(2)].join('\n')],
    ['goes on', `${whole}{}`],
    ['another format', whole.replace('"format":1', '"format":2')],
  ] as const) {
    await writeFile(file, bad);
    assert.equal((await open(folder)).routes, undefined, what);
  }
});

test('what another version wrote costs no more than what cannot be read of it, and routes are all asked for anew', async (t) => {
  const folder = await folderOf(t);
  const written = await write(folder, ['a', 'b', 'c'].map(routeOf));
  const [head = '', a = '', b = '', c = ''] = written.trimEnd().split('\n');
  assert.equal((await open(folder)).revision, '12');
  const known = async (lines: readonly string[]) => {
    const text = [head, ...lines, JSON.stringify({ lines: lines.length, more: 1 }), ''].join('\n');
    await writeFile(join(folder, 'table.jsonl'), text);
    const { routes, revision } = await open(folder);
    return { routes: routes?.map(({ id }) => id), revision };
  };
  for (const [what, lines, routes] of [
    ['a type', [a, b.replace('"type":"http"', '"type":"quic"'), c], ['a', 'c']],
    ['a setting', [a, b.replace(/"protocol":"\w+"/, '"protocol":"h3"'), c], ['a', 'b', 'c']],
    ['a service', [a, b, c, '{"service":"web","instances":[{"id":7}]}'], ['a', 'b', 'c']],
    ['something else', [a, b, c, '{"listener":{}}'], ['a', 'b', 'c']],
  ] as const) {
    assert.deepEqual(await known(lines), { routes, revision: undefined }, what);
  }
  assert.deepEqual(await known([a, c]), { routes: ['a', 'c'], revision: '12' });
});

test('backends are of one start of the machine, and of an hour; routes are older', async (t) => {
  const folder = await folderOf(t);
  const instance = { id: 'j1', service: 'web', address: '127.0.0.1:1', attributes: {}, createdRevision: 1 };
  const head = { format: 1, cluster: '', boot: 'b1', savedMs: 1_000_000 };
  const written = await write(folder, [routeOf('a')], { now: () => head.savedMs });
  const [first = '', route = ''] = written.split('\n');
  const service = JSON.stringify({ service: 'web', instances: [instance], leader: 'j1' });
  await writeFile(join(folder, 'table.jsonl'), [first, route, service, '{"lines":2}', ''].join('\n'));
  const known = async (more: Partial<RememberedOptions>) => {
    const table = await open(folder, more);
    const stop = new AbortController();
    const set = await table.filling(discoveryOf(away)).openServiceSet('web', { signal: stop.signal });
    stop.abort();
    return [table.routes?.length, set.instances.length, set.leader?.id];
  };
  assert.deepEqual(await known({ now: () => 2_000_000 }), [1, 1, 'j1']);
  assert.deepEqual(await known({ now: () => 9_000_000 }), [1, 0, undefined]);
  assert.deepEqual(await known({ now: () => 2_000_000, boot: async () => 'b2' }), [1, 0, undefined]);
});

test('backends of a calm hour are none the older for it: what is live is written again', async (t) => {
  const folder = await folderOf(t);
  let nowMs = 1_000_000;
  const table = await open(folder, { now: () => nowMs, renewMs: 1 });
  table.replace([routeOf('a')]);
  table.live(() => '12');
  const stop = new AbortController();
  const running = table.run(stop.signal);
  const saved = async () =>
    /"savedMs":(\d+)/.exec(await readFile(join(folder, 'table.jsonl'), 'utf8').catch(() => ''))?.[1];
  await waitFor(async () => (await saved()) === '1000000', { what: 'the file', ...waiting });
  nowMs = 9_000_000;
  await waitFor(async () => (await saved()) === '9000000', { what: 'the file to be as of now', ...waiting });
  stop.abort();
  await running;
});

test('backends that discovery tells nothing of age from then on, however often routes and other backends are written', async (t) => {
  const folder = await folderOf(t);
  const file = join(folder, 'table.jsonl');
  let nowMs = 1_000_000;
  const table = await open(folder, { now: () => nowMs, renewMs: 1 });
  table.replace([routeOf('a')]);
  table.live(() => '12');
  const stop = new AbortController();
  const { signal } = stop;
  const services = ['web', 'api', 'never-told'];
  let silentSinceMs: number | undefined;
  const discoveries = [discoveryOf(ready, () => silentSinceMs), discoveryOf(ready), discoveryOf(away, () => 1)];
  for (const [index, discovery] of discoveries.entries()) {
    await table.filling(discovery).openServiceSet(services[index] ?? '', { signal });
  }
  const running = table.run(signal);
  const saved = async (text: string) => (await readFile(file, 'utf8').catch(() => '')).includes(text);
  await waitFor(() => saved('"savedMs":1000000'), { what: 'the file', ...waiting });
  silentSinceMs = 1_100_000;
  nowMs = 9_000_000;
  await waitFor(() => saved('"savedMs":9000000'), { what: 'the file to be as of now', ...waiting });
  stop.abort();
  await running;
  /** How many backends a router that starts then has of each. */
  const known = async (thenMs: number) => {
    const after = (await open(folder, { now: () => thenMs })).filling(discoveryOf(away));
    const ending = new AbortController();
    const sets = await Promise.all(services.map((name) => after.openServiceSet(name, { signal: ending.signal })));
    ending.abort();
    return sets.map(({ instances }) => instances.length);
  };
  assert.deepEqual(await known(4_000_000), [1, 1, 0]);
  assert.deepEqual(await known(9_000_000), [0, 1, 0]);
});

test('a worker that is not the one to write reads only', async (t) => {
  const folder = await folderOf(t);
  const table = await open(folder, { writes: false });
  table.replace([routeOf('a')]);
  table.live(() => '12');
  await table.run(new AbortController().signal);
  assert.deepEqual(await readdir(folder), []);
});
