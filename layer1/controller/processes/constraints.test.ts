import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ErrorCode, hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { hosts } from '../hosts/api.ts';
import { apps, deployments, formations, jobs, releases } from '../api.ts';
import { reasonsOf } from '../mirrors/cell-view.ts';
import { generic } from '../generic/api.ts';
import { health } from '../health/api.ts';
import type { Deployment } from '../model.ts';
import { limitDeployment, startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';

const isCode = (code: ErrorCode, pattern: RegExp) => (error: unknown) =>
  hasCode(error, code) && pattern.test(error.message);
const onSsd = { constraints: [{ attribute: 'disk', values: ['ssd'] }] };
const door = { omni: true, constraints: [{ attribute: 'router', operator: 'not_in' as const, values: ['no'] }] };

async function tag(world: TestController, host: string, tags: Record<string, string | null>): Promise<void> {
  await world.client.call(hosts.tag, { params: { host }, body: { tags } });
}

/** Deploys what no host takes. Its time ends soon once `isStuck`: by itself, once a scheduler has said why it waits. */
async function deployInVain(
  world: TestController,
  releaseId: string,
  isStuck = () => reasonsOf(world.deps.cell).size > 0,
): Promise<Deployment> {
  const { id } = await world.client.call(deployments.create, { params: { app: 'shop' }, body: { releaseId } });
  await waitFor(isStuck, { what: 'what is deployed to wait', deadlineMs: 30_000, intervalMs: 5 });
  await limitDeployment(world, id, 1_000);
  return world.endOf(id);
}

const hostsOf = (found: readonly { hostId?: string | undefined }[]) =>
  found.map(({ hostId = '' }) => hostId).toSorted();

test('jobs of a type with constraints are on hosts that meet them, and leave one that does not any more', async () => {
  await using world = await startTestController({ hosts: 3 });
  for (const host of ['host1', 'host2']) await tag(world, host, { disk: 'ssd' });
  const { release } = await world.deployApp('shop', { web: { ...onSsd, ports: [{ port: 8080 }] } });
  assert.deepEqual(release.processes['web']?.constraints, [{ attribute: 'disk', operator: 'in', values: ['ssd'] }]);
  const params = { app: 'shop', release: 'v1' };
  await world.client.call(formations.put, { params, body: { processes: { web: 4 } } });
  assert.deepEqual(hostsOf(await world.jobsOf('shop', 4)), ['host1', 'host1', 'host2', 'host2']);
  await tag(world, 'host1', { disk: null });
  await waitFor(
    async () => hostsOf(await world.client.call(jobs.list, { params })).join() === 'host2,host2,host2,host2',
    { what: 'all jobs on the host that is left', deadlineMs: 30_000, intervalMs: 10 },
  );
});

test('a release whose constraints no host meets fails and says why; the one before serves on', async () => {
  await using world = await startTestController();
  await world.deployApp('shop', { web: {}, agent: { omni: true } });
  const waiting = await deployInVain(world, (await world.makeRelease('shop', { web: onSsd })).id);
  assert.equal(waiting.state, 'failed');
  assert.match(waiting.error ?? '', /0 of 1 web jobs are up \(0 placed, 1 waiting: disk is not ssd \(2 hosts\)\)/);
  const omni = await world.makeRelease('shop', { web: { ...onSsd, omni: true } });
  const { state, error } = await deployInVain(world, omni.id, () => true);
  assert.equal(state, 'failed');
  assert.match(error ?? '', /0 of 1 web jobs are up \(no host meets its constraints\)/);
  assert.equal((await world.jobsOf('shop', 1))[0]?.type, 'web');
});

test('an omni type whose hosts are all cordoned says that, and not that there are none', async () => {
  await using world = await startTestController({ hosts: 1 });
  const web = { omni: true, command: ['one'] };
  await world.deployApp('shop', { web });
  await world.client.call(hosts.cordon, { params: { host: 'host1' } });
  const next = await world.makeRelease('shop', { web: { ...web, command: ['two'] } });
  const { state, error } = await deployInVain(world, next.id, () => true);
  assert.equal(state, 'failed');
  assert.match(error ?? '', /0 of 1 web jobs are up \(every host for it is cordoned or drains\)/);
});

test('a type with a volume stays with its data: a release that is not for that host says so, and starts nothing empty', async () => {
  await using world = await startTestController();
  const db = { volumes: [{ name: 'data', path: '/data' }] };
  await world.deployApp('shop', { web: db });
  const [before] = await world.jobsOf('shop', 1);
  const [own = '', other = ''] = before?.hostId === 'host1' ? ['host1', 'host2'] : ['host2', 'host1'];
  await tag(world, other, { disk: 'ssd' });
  const release = await world.makeRelease('shop', { web: { ...db, ...onSsd } });
  const { state, error } = await deployInVain(world, release.id);
  assert.equal(state, 'failed');
  assert.match(error ?? '', new RegExp(`volume data is on ${own}, which does not match: disk is not ssd`));
  assert.deepEqual(await world.jobsOf('shop', 1), [before], 'its job was not even stopped');
  await tag(world, own, { disk: 'ssd' });
  assert.equal((await world.deploy('shop', release.id)).state, 'complete');
  assert.deepEqual(hostsOf(await world.jobsOf('shop', 1)), [own]);
});

test('of an omni type each host that meets its constraints has one: deployments and health count these', async () => {
  await using world = await startTestController({ hosts: 3 });
  await tag(world, 'host3', { router: 'no' });
  const ports = [{ port: 8080, service: { name: 'router' } }];
  const { app } = await world.deployApp('router', { web: { ...door, ports } }, { isSystem: true });
  assert.deepEqual(hostsOf(await world.jobsOf('router', 2)), ['host1', 'host2']);
  const again = await world.makeRelease('router', { web: { ...door, ports, env: { VERSION: '2' } } });
  const { state, error } = await world.deploy('router', again.id);
  assert.equal(state, 'complete', error);
  assert.deepEqual(hostsOf(await world.jobsOf('router', 2)), ['host1', 'host2']);
  const part = async () => {
    const { components } = await world.client.call(health.get, { query: { patienceMs: 10_000 } });
    const { wanted, healthy } = components.find(({ name }) => name === 'router web') ?? {};
    return [wanted, healthy];
  };
  assert.deepEqual(await part(), [2, 2]);
  const params = { app: app.id, release: again.id };
  const scaling = world.client.call(formations.put, { params, body: { processes: { web: 2 } } });
  await assert.rejects(scaling, isCode('invalid', /every host that meets its constraints runs one of web/));

  await tag(world, 'host2', { router: 'no' });
  assert.deepEqual(hostsOf(await world.jobsOf('router', 1)), ['host1']);
  assert.deepEqual(await part(), [1, 1]);
  await assert.rejects(
    tag(world, 'host1', { router: 'no' }),
    isCode('conflict', /host1 is the only host left for router/),
  );
  await tag(world, 'host1', { disk: 'ssd' });
  await tag(world, 'host3', { router: null });
  assert.deepEqual(hostsOf(await world.jobsOf('router', 2)), ['host1', 'host3']);
});

test('the last host with a router is neither drained nor tagged out while others are there; one that drains has none soon', async () => {
  await using world = await startTestController({ hosts: 3 });
  const { client } = world;
  const ports = [{ port: 8080, service: { name: 'router' } }];
  await world.deployApp('router', { web: { ...door, ports } }, { isSystem: true });
  const drain = (host: string) => client.call(hosts.drain, { params: { host }, body: { giveUpBlobs: true } });
  const isLast = isCode('conflict', /host1 is the only host left for router/);
  await tag(world, 'host3', { router: 'no' });
  await drain('host2');
  assert.deepEqual(hostsOf(await world.jobsOf('router', 1)), ['host1']);
  await assert.rejects(tag(world, 'host1', { router: 'no' }), isLast);
  await assert.rejects(drain('host1'), isLast);
  await client.call(hosts.undrain, { params: { host: 'host2' } });
  await world.jobsOf('router', 2);
  await tag(world, 'host2', { router: 'no' });
  await world.jobsOf('router', 1);
  await client.call(hosts.cordon, { params: { host: 'host2' } });
  await tag(world, 'host2', { router: null });
  await assert.rejects(drain('host1'), isLast, 'it gets none while it is cordoned');
  await client.call(hosts.uncordon, { params: { host: 'host2' } });
  await world.jobsOf('router', 2);
  await client.call(hosts.cordon, { params: { host: 'host2' } });
  await drain('host1');
  assert.deepEqual(hostsOf(await world.jobsOf('router', 1)), ['host2']);
});

test('a deployment under way hears of a host that is tagged: it waits for no job there any more', async () => {
  await using world = await startTestController({ hosts: 2 });
  const first = await world.deployApp('agent', { web: door });
  world.setBehaviour((job) => (job.id.startsWith('host2-') ? { is: 'hang' } : { is: 'run' }));
  const next = await world.makeRelease('agent', { web: { ...door, env: { VERSION: '2' } } });
  const { id } = await world.client.call(deployments.create, {
    params: { app: first.app.id },
    body: { releaseId: next.id },
  });
  const isHanging = (job: { releaseId: string; state: string }) =>
    job.releaseId === next.id && job.state === 'starting';
  await world.jobsOf('agent', 1, isHanging);
  await tag(world, 'host2', { router: 'no' });
  const { state, error } = await world.endOf(id);
  assert.equal(state, 'complete', error);
});

test('what asks nothing that a host could answer is refused, by the API and in files, which tell and take them', async () => {
  await using world = await startTestController({ hosts: 1 });
  await world.client.call(apps.create, { body: { name: 'shop' } });
  const params = { app: 'shop' };
  for (const [constraint, why] of [
    [
      { attribute: 'disk' },
      /in and not_in compare with values: give at least one(.|\n)*processes\.web\.constraints\[0\]/,
    ],
    [{ attribute: 'disk', operator: 'exists', values: ['ssd'] }, /exists, missing and distinct compare with no values/],
    [{ attribute: 'a disk', operator: 'exists' }, /a tag of a host is 1 to 64 letters, digits/],
    [{ attribute: 'disk', operator: 'like', values: ['ssd'] }, /expected one of "in"\|"not_in"/],
  ] as const) {
    const body = { processes: { web: { constraints: [Object.assign({}, constraint)] } } };
    await assert.rejects(world.client.call(releases.create, { params, body: body as object }), isCode('invalid', why));
  }
  const kind = { group: 'flynn', version: 'v1', kind: 'App' };
  const apply = (constraints: object[]) =>
    world.client.call(generic.apply, {
      params: kind,
      body: { name: 'blog', spec: { image: 'blog:1', processes: { web: { constraints } } } },
      query: {},
    });
  await assert.rejects(
    apply([{ attribute: 'disk' }]),
    isCode('invalid', /constraints\.0\.values: in and not_in compare/),
  );
  const made = await apply([{ attribute: 'host', values: ['host1'] }]);
  assert.ok(made.deploymentId !== undefined);
  const shown = await world.client.call(generic.get, { params: { ...kind, name: 'blog' } });
  assert.deepEqual(Object(shown.spec['processes'])['web'].constraints, [
    { attribute: 'host', operator: 'in', values: ['host1'] },
  ]);
  assert.equal((await apply([{ attribute: 'host', values: ['host1'] }])).outcome, 'unchanged');
});
