/** A type with a volume on each of several hosts: replaced where it is, one job after the other. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formations } from '../api.ts';
import type { Job } from '../model.ts';
import { limitDeployment, startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';
import { beginDeployment, deploymentReaches, hasEnded, hostAgain, loseHosts } from './deployment-fixture.ts';

const db = (version: string) => ({
  db: {
    env: { VERSION: version },
    volumes: [{ name: 'data', path: '/data' }],
    constraints: [{ attribute: 'host', operator: 'distinct' as const }],
  },
});

/** Three of them, on three of four hosts. */
async function replicated(world: TestController) {
  const { release } = await world.deployApp('shop', db('one'));
  const params = { app: 'shop', release: release.id };
  await world.client.call(formations.put, { params, body: { processes: { db: 3 } } });
  return world.jobsOf('shop', 3);
}

/** Slot by slot: host and job, as schedulers assigned them. */
function slotsOf({ deps }: TestController): { hostId: string; id: string }[] {
  const slots = [...deps.cell.assignments.snapshot.entries].flatMap(([key, { value }]) =>
    value.groups.flatMap(({ jobs }) => jobs.map(({ index, id }) => ({ index, id, hostId: key.split('/')[0] ?? '' }))),
  );
  return slots.toSorted((a, b) => a.index - b.index).map(({ id, hostId }) => ({ hostId, id }));
}

const hostsOf = (world: TestController) => slotsOf(world).map(({ hostId }) => hostId);

/** How many run, by what hosts themselves say. */
const runningOn = ({ hosts }: TestController) =>
  hosts.flatMap((host) => host.statuses()).filter(({ state }) => state === 'running').length;

test('each is replaced on its own host once the one before is up', async () => {
  await using world = await startTestController({ hosts: 4 });
  await replicated(world);
  const before = hostsOf(world);
  assert.equal(new Set(before).size, 3);
  const next = await world.makeRelease('shop', db('two'));
  const beside: number[] = [];
  world.setBehaviour(() => {
    beside.push(runningOn(world));
    return { is: 'run' };
  });
  const ended = await world.deploy('shop', next.id);
  assert.deepEqual([ended.state, ended.progress['db']], ['complete', { wanted: 3, up: 3, old: 0 }]);
  assert.deepEqual(beside, [2, 2, 2], 'never two away at once');
  assert.deepEqual(hostsOf(world), before);
});

test('one that does not stay up has those before it put back where they were; the others were never stopped', async () => {
  await using world = await startTestController({ hosts: 4 });
  const old = await replicated(world);
  const before = slotsOf(world);
  const next = await world.makeRelease('shop', db('two'));
  let begun = 0;
  world.setBehaviour(({ template }) => {
    if (template.meta['flynn.release'] !== next.id) return { is: 'run' };
    begun += 1;
    return begun === 2 ? { is: 'crash', code: 1 } : { is: 'run' };
  });
  const ended = await world.deploy('shop', next.id);
  assert.equal(ended.state, 'failed');
  assert.match(ended.error ?? '', /a db job of the new release did not stay up/);
  const releaseId = old[0]?.releaseId;
  await world.jobsOf('shop', 3, (job) => job.state === 'running' && job.releaseId === releaseId);
  assert.equal(begun, 2);
  const after = slotsOf(world);
  assert.deepEqual(
    after.map(({ hostId }) => hostId),
    before.map(({ hostId }) => hostId),
  );
  assert.equal(after[2]?.id, before[2]?.id);
});

test('of hosts that have just gone away none is left out: back again, each begins with the release', async () => {
  await using world = await startTestController({ hosts: 4 });
  await replicated(world);
  const [, ...lost] = hostsOf(world);
  await loseHosts(world, lost);
  const next = await world.makeRelease('shop', db('two'));
  const id = await beginDeployment(world, 'shop', next.id);
  await deploymentReaches(world, id, ({ progress }) => progress['db']?.up === 1);
  await using returned = new AsyncDisposableStack();
  for (const hostId of lost) await returned.use(hostAgain(world, hostId)).start();
  const ended = await deploymentReaches(world, id, hasEnded);
  assert.deepEqual([ended.state, ended.progress['db']], ['complete', { wanted: 3, up: 3, old: 0 }]);
  assert.equal(ended.warning, undefined);
});

test('those whose host stays away are not waited for, which is said, and follow once it is back', async () => {
  await using world = await startTestController({ hosts: 4 });
  const old = await replicated(world);
  const [, lost = ''] = hostsOf(world);
  await loseHosts(world, [lost]);
  const next = await world.makeRelease('shop', db('two'));
  const id = await beginDeployment(world, 'shop', next.id);
  await deploymentReaches(world, id, ({ progress }) => progress['db']?.up === 2);
  await limitDeployment(world, id, 1);
  const ended = await deploymentReaches(world, id, hasEnded);
  assert.deepEqual([ended.state, ended.progress['db']], ['complete', { wanted: 3, up: 2, old: 0 }]);
  assert.equal(ended.warning, `1 of 3 db jobs are to follow: their data is on ${lost}, which is away`);
  const isRunning = ({ state, hostId }: Job) => state === 'running' && hostId !== lost;
  await world.jobsOf('shop', 2, (job) => isRunning(job) && job.releaseId === next.id);
  assert.equal(slotsOf(world)[1]?.hostId, lost);
  assert.notEqual(old[0]?.releaseId, next.id);
});

test('nor is one of them waited for by the next deployment, which begins while other old jobs are ending', async () => {
  await using world = await startTestController({ hosts: 4 });
  world.setBehaviour(({ template }) => ({ is: 'run', lingers: template.meta['flynn.type'] === 'web' }));
  const both = (version: string) => ({ ...db(version), web: {} });
  const { release } = await world.deployApp('shop', both('one'));
  const params = { app: 'shop', release: release.id };
  await world.client.call(formations.put, { params, body: { processes: { db: 3, web: 1 } } });
  const jobs = await world.jobsOf('shop', 4);
  const web = jobs.find(({ type }) => type === 'web');
  const owner = jobs.find(({ type, hostId }) => type === 'db' && hostId !== web?.hostId);
  world.setBehaviour(() => ({ is: 'run' }));
  await loseHosts(world, [owner?.hostId ?? '']);
  const deployed: string[] = [];
  for (const version of ['two', 'three']) {
    const next = await world.makeRelease('shop', both(version));
    const id = await beginDeployment(world, 'shop', next.id);
    deployed.push(id);
    await deploymentReaches(world, id, ({ progress }) => progress['db']?.up === 2);
    await limitDeployment(world, id, 1);
    await deploymentReaches(world, id, ({ state }) => state === 'finishing');
  }
  await world.hosts.find(({ id }) => id === web?.hostId)?.end(web?.id ?? '', 0);
  const ended = await deploymentReaches(world, deployed[1] ?? '', hasEnded);
  assert.deepEqual([ended.state, ended.progress['db']?.up], ['complete', 2], ended.error);
});

test('where all are away it fails: nothing has shown that it runs', async () => {
  await using world = await startTestController({ hosts: 4 });
  await replicated(world);
  await loseHosts(world, hostsOf(world));
  const next = await world.makeRelease('shop', db('two'));
  const id = await beginDeployment(world, 'shop', next.id);
  await limitDeployment(world, id, 1);
  const ended = await deploymentReaches(world, id, hasEnded);
  assert.equal(ended.state, 'failed');
  assert.match(ended.error ?? '', /0 of . db jobs are up \(.* is away/);
});
