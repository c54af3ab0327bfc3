/** What becomes of a deployment while hosts are away that have jobs of the app. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formations } from '../api.ts';
import { hosts } from '../hosts/api.ts';
import { limitDeployment, startTestController } from '../testing.ts';
import { beginDeployment, deploymentReaches, hasEnded, hostAgain, loseHosts } from './deployment-fixture.ts';

const omni = (version: string) => ({ web: { omni: true, env: { VERSION: version } } });

test('jobs that may be anywhere begin on other hosts, all that are wanted', async () => {
  await using world = await startTestController({ hosts: 5 });
  const { release } = await world.deployApp('shop', { web: {} });
  const params = { app: 'shop', release: release.id };
  await world.client.call(formations.put, { params, body: { processes: { web: 5 } } });
  await world.jobsOf('shop', 5);
  await loseHosts(world, ['host2', 'host3']);
  const next = await world.makeRelease('shop', { web: { env: { VERSION: 'two' } } });
  const ended = await world.deploy('shop', next.id);
  assert.deepEqual([ended.state, ended.warning], ['complete', undefined], ended.error);
  assert.deepEqual(ended.progress['web'], { wanted: 5, up: 5, old: 0 });
  const now = await world.jobsOf('shop', 5);
  assert.ok(now.every(({ hostId = '' }) => !['host2', 'host3'].includes(hostId)));
});

test('of one on each host those that have just gone away are waited for', async () => {
  await using world = await startTestController({ hosts: 3 });
  await world.deployApp('shop', omni('one'));
  await world.jobsOf('shop', 3);
  await loseHosts(world, ['host2', 'host3']);
  const next = await world.makeRelease('shop', omni('two'));
  const id = await beginDeployment(world, 'shop', next.id);
  await deploymentReaches(world, id, ({ progress }) => progress['web']?.up === 1);
  await using returned = new AsyncDisposableStack();
  for (const hostId of ['host2', 'host3']) await returned.use(hostAgain(world, hostId)).start();
  const ended = await deploymentReaches(world, id, hasEnded);
  assert.deepEqual([ended.state, ended.warning], ['complete', undefined], ended.error);
  assert.equal(ended.progress['web']?.up, 3);
});

test('those that stay away are left out, which is said with how many they are', async () => {
  await using world = await startTestController({ hosts: 5 });
  await world.deployApp('shop', omni('one'));
  await world.jobsOf('shop', 5);
  await loseHosts(world, ['host2', 'host3']);
  const next = await world.makeRelease('shop', omni('two'));
  const id = await beginDeployment(world, 'shop', next.id);
  await deploymentReaches(world, id, ({ progress }) => progress['web']?.up === 3);
  await limitDeployment(world, id, 1);
  const ended = await deploymentReaches(world, id, hasEnded);
  assert.deepEqual([ended.state, ended.progress['web']?.up], ['complete', 3], ended.error);
  assert.equal(ended.warning, '2 of 5 web jobs are to follow: host2, host3 are away');
});

test('a host whose tags say that the next release is not meant for it is not waited for', async () => {
  await using world = await startTestController({ hosts: 3 });
  await world.deployApp('shop', omni('one'));
  await world.jobsOf('shop', 3);
  for (const [host, disk] of Object.entries({ host1: 'ssd', host2: 'ssd', host3: 'slow' })) {
    await world.client.call(hosts.tag, { params: { host }, body: { tags: { disk } } });
  }
  await loseHosts(world, ['host3']);
  const constraints = [{ attribute: 'disk', operator: 'in' as const, values: ['ssd'] }];
  const next = await world.makeRelease('shop', { web: { ...omni('two').web, constraints } });
  const ended = await world.deploy('shop', next.id);
  assert.deepEqual([ended.state, ended.warning, ended.progress['web']?.up], ['complete', undefined, 2], ended.error);
});
