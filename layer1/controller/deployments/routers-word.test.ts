import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { wordRoute } from '@flynn/discovery/routers';
import type { Word } from '@flynn/discovery/routers';
import { pause } from '@flynn/kit/clock';
import { handle, startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { apps, deployments, formations, jobs } from '../api.ts';
import { routing } from '../routes/api.ts';
import { startTestController } from '../testing.ts';

const web = { web: { ports: [{ port: 8080 }] } };
const waiting = { deadlineMs: 60_000, intervalMs: 5 };

/** A router that says what the test wants, and tells what it was asked. */
async function startRouter(t: TestContext) {
  const asked: Word[] = [];
  const state = { isSo: true };
  const word = handle(wordRoute, async ({ body, signal }) => {
    asked.push(body);
    const endMs = performance.now() + body.waitMs;
    while (!state.isSo && performance.now() < endMs && !signal.aborted) await pause(5, signal);
    return { isSo: state.isSo };
  });
  const options = { key: 'test-cluster-key', host: '127.0.0.1', port: 0, log: silentLogger() };
  const server = await startServer({ name: 'router', handlers: [word], ...options });
  t.after(() => server.close());
  return { asked, state, address: `127.0.0.1:${server.port}` };
}

test('old jobs go only when every router has the new ones', async (t) => {
  const router = await startRouter(t);
  await using world = await startTestController({ routers: () => [router.address] });
  const { app, release } = await world.deployApp('shop', web);
  const params = { app: 'shop' };
  await world.client.call(formations.put, {
    params: { ...params, release: release.id },
    body: { processes: { web: 2 } },
  });
  const old = await world.jobsOf('shop', 2);
  const next = await world.makeRelease('shop', { web: { ...web.web, env: { A: '2' } } });
  router.state.isSo = false;
  router.asked.length = 0;
  const { id } = await world.client.call(deployments.create, { params, body: { releaseId: next.id } });
  await waitFor(() => router.asked.length > 0, { what: 'the routers to be asked', ...waiting });
  const [question] = router.asked;
  const now = await world.client.call(jobs.list, { params });
  const isOf = (releaseId: string) => now.filter((job) => job.releaseId === releaseId).map((job) => job.id);
  assert.deepEqual(
    question?.services?.map(({ service }) => service),
    ['shop-web'],
  );
  assert.deepEqual(new Set(question?.services?.[0]?.up), new Set(isOf(next.id)));
  assert.deepEqual(new Set(isOf(release.id)), new Set(old.map((job) => job.id)), 'all old jobs are still wanted');
  assert.equal((await world.client.call(apps.get, { params })).releaseId, app.releaseId);
  router.state.isSo = true;
  await world.endOf(id);
  assert.equal((await world.client.call(apps.get, { params })).releaseId, next.id);
  await world.jobsOf('shop', 2);
});

test('what was never there is live once every router has it', async (t) => {
  const router = await startRouter(t);
  await using world = await startTestController({ routers: () => [router.address] });
  const params = { app: 'shop' };
  await world.client.call(apps.create, { body: { name: 'shop' } });
  const first = await world.makeRelease('shop', web);
  router.state.isSo = false;
  const { id } = await world.client.call(deployments.create, { params, body: { releaseId: first.id } });
  await waitFor(() => router.asked.length > 0, { what: 'the routers to be asked', ...waiting });
  const [job] = await world.client.call(jobs.list, { params });
  assert.deepEqual(router.asked[0]?.services, [{ service: 'shop-web', up: [job?.id], down: [], ended: [] }]);
  assert.equal((await world.client.call(apps.get, { params })).releaseId, undefined);
  router.state.isSo = true;
  await world.endOf(id);
  assert.equal((await world.client.call(apps.get, { params })).releaseId, first.id);
});

test('a router that cannot answer is waited for once, not for ever', async (t) => {
  const router = await startRouter(t);
  const addresses = [router.address];
  await using world = await startTestController({ routers: () => addresses });
  const { release } = await world.deployApp('shop', web);
  addresses.push('127.0.0.1:1');
  const started = performance.now();
  const next = await world.makeRelease('shop', { web: { ...web.web, env: { A: '2' } } });
  const deployed = await world.deploy('shop', next.id);
  assert.equal(deployed.state, 'complete', deployed.error);
  assert.notEqual(deployed.newReleaseId, release.id);
  assert.ok(performance.now() - started >= 4_500, 'it was waited for');
});

test('whoever changes a route can wait for the routers, and is told which do not have it', async (t) => {
  const router = await startRouter(t);
  await using world = await startTestController({ hosts: 0, hasWorker: false, routers: () => [router.address] });
  await world.client.call(apps.create, { body: { name: 'shop' } });
  const params = { app: 'shop' };
  const added = await world.client.call(routing.create, { params, body: { domain: 'a.example.com' } });
  const { id, revision = 0 } = added;
  const reach = (waitMs: number, routes: { id: string; revision?: number }[]) =>
    world.client.call(routing.reach, { params, body: { routes, waitMs } });
  assert.deepEqual(await reach(10_000, [{ id, revision }]), { missing: [] });
  assert.deepEqual(router.asked.at(-1)?.routes, [{ id, revision }]);
  router.state.isSo = false;
  assert.deepEqual(await reach(50, [{ id }]), { missing: [router.address] });
  const late = reach(10_000, [{ id }]);
  router.state.isSo = true;
  assert.deepEqual(await late, { missing: [] });
});
