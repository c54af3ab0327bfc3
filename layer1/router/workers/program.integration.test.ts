import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { routes } from '../api.ts';
import { ask } from '../testing.ts';
import { workersBefore } from './before.ts';
import { Load, Place, Tunnel, soon } from './testing.ts';

const loader = new URL('./load.ts', import.meta.url).pathname;

test('a router of several processes speaks with one voice, loses only a dead worker’s own clients, and ends whole', async (t) => {
  const place = await Place.create(t);
  const router = await place.start('2');
  const before = await router.workers();
  assert.equal(before.length, 2);
  for (let i = 0; i < 40; i += 1) assert.equal((await ask(place.port)).statusCode, 200);
  const status = await router.client.call(routes.status, {});
  assert.equal(status.hasRoutes, true);
  assert.equal(status.counters.requests, 40);
  assert.equal(status.backends.filter(({ service }) => service === 'web').length, 1);
  const stats = await router.client.call(routes.routeStats, { params: { route: 'r1' } });
  assert.equal(stats.requests, 40);
  const { apps } = await router.client.call(routes.appStats, {});
  assert.deepEqual(
    apps.map(({ appId, requests, latency }) => [appId, requests, latency]),
    [[stats.appId, 40, stats.latency.counts]],
  );

  const isKnown = await router.client.call(routes.word, { body: { routes: [{ id: 'r1' }], waitMs: 0 } });
  assert.equal(isKnown.isSo, false);
  const waiting = router.client.call(routes.word, { body: { routes: [{ id: 'r1' }], waitMs: 20_000 } });
  place.plane.removeRoute('r1');
  assert.equal((await waiting).isSo, true);
  place.plane.setRoute({ id: 'r1', domain: 'app.test' });
  const isThere = async () => (await router.client.call(routes.status, {})).routes.http === 1;
  await waitFor(isThere, { what: 'the route in all workers', ...soon });
  await router.client.call(routes.word, { body: { routes: [{ id: 'r1', revision: 0 }], waitMs: 20_000 } });

  const child = fork(loader, [String(place.port), '8']);
  t.after(() => void child.kill('SIGKILL'));
  const load = new Load(child);
  await load.more(50);
  const [victim = 0, other = 0] = before;
  process.kill(victim, 'SIGKILL');
  await waitFor(
    async () => {
      const now = await router.workers();
      return now.length === 2 && !now.includes(victim) && now.includes(other);
    },
    { what: 'another worker', ...soon },
  );
  await load.more(500);
  const { answered, unheard, failed } = await load.stop();
  // Eight clients have one connection each: the dead one can have had those, and each client's next while it was dying.
  const lost = Object.values(failed).reduce((sum, count) => sum + count, unheard);
  assert.ok(lost <= 16, JSON.stringify({ unheard, failed }));
  assert.ok(answered > 500);
  assert.equal(await router.stop(), 0);
});

test('a router is one process until there is work for two, and the one after it begins with as many', async (t) => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-router-'));
  const stateDir = folder.path;
  const place = await Place.create(t);
  const router = await place.start('1-2', { stateDir });
  assert.equal((await router.workers()).length, 0);
  assert.equal((await router.client.call(routes.status, {})).workers, 1);
  // What is under way when there is work for two is under way afterwards: nobody waits for its end, nor ends it.
  const tunnel = await Tunnel.open(place.port);
  t.after(() => tunnel.destroy());

  const child = fork(loader, [String(place.port), '32']);
  t.after(() => void child.kill('SIGKILL'));
  const load = new Load(child);
  await waitFor(async () => (await router.client.call(routes.status, {})).workers === 2, { what: 'another', ...soon });
  await load.more(500);
  const { answered, unheard, failed } = await load.stop();
  assert.deepEqual(failed, {});
  // The kernel's own, of `closing.ts`: it is not told here to move what waits at a port that closes.
  assert.ok(unheard <= 2, String(unheard));
  assert.equal((await router.workers()).length, 2);
  await tunnel.say('still there');
  const counted = async () => (await router.client.call(routes.status, {})).counters;
  // Both what the first process and what workers counted.
  const all = await counted();
  assert.deepEqual([all.requests, all.upgrades], [answered, 1]);
  await tunnel.end();
  assert.deepEqual(await counted(), all);

  const isKept = async () => (await workersBefore(stateDir, silentLogger()).read(2)) === 2;
  await waitFor(isKept, { what: 'the number of workers to be kept', ...soon });
  const next = await place.start('1-2', { stateDir });
  assert.equal((await next.client.call(routes.status, {})).workers, 2);
  assert.equal(await router.stop(), 0);
  assert.equal(await next.stop(), 0);
});
