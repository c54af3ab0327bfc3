import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cellKeys } from '@flynn/scheduler/cell';
import type { SeenStatus } from '@flynn/scheduler/lost-jobs';
import { placedOf, statusOf, workloadOf } from '@flynn/scheduler/testing';
import { hosts as hostRoutes } from '../hosts/api.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';
import { makeTestDatastore, withAppliances } from './datastore-fixture.ts';
import { anyMember, leaveDraining, leavingOf, stayOf } from './switchover.ts';

const member = (hostId: string, more: Partial<SeenStatus> = {}): SeenStatus => ({
  ...statusOf(placedOf(workloadOf(), hostId, { hostId }), 'running'),
  isUncertain: false,
  ...more,
});
const primary = (hostId: string, more: Partial<SeenStatus> = {}) => member(hostId, { goesLast: true, ...more });
const drain =
  (...hosts: string[]) =>
  (hostId: string) =>
    hosts.includes(hostId);

test('a primary leaves a host that drains, for whichever other its members take', () => {
  const all = [primary('h1'), member('h2'), member('h3')];
  assert.deepEqual(leavingOf(all, drain('h1')), { from: 'h1', to: anyMember });
  assert.equal(leavingOf([primary('h1'), member('h2')], drain('h2')), undefined);
  assert.equal(leavingOf([primary('h1'), member('h2')], drain()), undefined);
});

test('it goes to none whose host drains as well, nor to one that is not up, and stays where there is no other', () => {
  assert.deepEqual(leavingOf([primary('h1'), member('h2'), member('h3')], drain('h1', 'h2')), {
    from: 'h1',
    to: ['h3'],
  });
  const four = [primary('h1'), member('h2'), member('h3'), member('h4')];
  assert.deepEqual(leavingOf(four, drain('h1', 'h2')), { from: 'h1', to: ['h3', 'h4'] });
  const stays = { from: 'h1' };
  assert.deepEqual(leavingOf([primary('h1'), member('h2')], drain('h1', 'h2')), stays);
  assert.deepEqual(leavingOf([primary('h1'), member('h2', { state: 'starting' })], drain('h1')), stays);
  assert.deepEqual(leavingOf([primary('h1'), member('h2', { isUncertain: true })], drain('h1')), stays);
  assert.deepEqual(leavingOf([primary('h1')], drain('h1')), stays);
  assert.equal(leavingOf([primary('h1', { isUncertain: true }), member('h2')], drain('h1')), undefined);
});

test('what keeps a primary where it is is told', () => {
  const told = (members: SeenStatus[], ...hosts: string[]) => stayOf('db', members, drain(...hosts));
  assert.equal(told([primary('h1'), member('h2')]), undefined);
  assert.deepEqual(told([primary('h1'), member('h2')], 'h1', 'h2'), {
    hostId: 'h1',
    text: 'the primary of db stays: no other member is up on a host that does not drain',
  });
  assert.match(told([primary('h1'), member('h2')], 'h1')?.text ?? '', /leaves for another member once that has all/);
  const beside = [primary('h1'), member('h2'), member('h3')];
  assert.match(told(beside, 'h1', 'h2')?.text ?? '', /leaves for the member on h3 once that has all/);
  const more = [...beside, member('h4')];
  assert.match(told(more, 'h1', 'h2')?.text ?? '', /leaves for the member on h3 or h4 once that has all/);
});

/** Its primary is on host1, which drains as does host2. `isLate`: the member there refuses. `asked`: who was to take over. */
async function leavingTwo(world: TestController, count: number, isLate: (host: string) => boolean) {
  await world.deployApp('shop', { web: {} });
  const own = await makeTestDatastore(world, { app: 'shop', members: count });
  const members = await world.jobsOf(own.name, count);
  const at = (host: string) => members.find(({ hostId }) => hostId === host);
  const key = cellKeys.jobStatus('host1', at('host1')?.id ?? '');
  const status = JSON.parse((await world.store.get(key))?.value ?? '') as object;
  await world.store.transact({ then: [{ put: key, value: JSON.stringify({ ...status, goesLast: true }) }] });
  const asked: string[] = [];
  for (const host of world.hosts) {
    host.programs = (command) => {
      const to = command.at(-1) ?? '';
      if (command.includes('switchover')) asked.push(to);
      const host = members.find(({ address }) => address === to)?.hostId;
      if (host === undefined || !isLate(host))
        return { stdout: JSON.stringify({ from: at('host1')?.address, to }), code: 0 };
      return { stderr: 'the member has yet to catch up with what was committed', code: 1 };
    };
  }
  // In one write: between the two of them any other would do.
  const drained = JSON.stringify({ cordoned: false, tags: {}, drain: { startedAt: 1, maxParallel: 1 } });
  const then = ['host1', 'host2'].map((host) => ({ put: cellKeys.hostSettings(host), value: drained }));
  const { revision } = await world.store.transact({ then });
  await Promise.all([world.deps.cell.settings, world.deps.cell.statuses].map((mirror) => mirror.reached(revision)));
  return { own, asked, addressOf: (host: string) => at(host)?.address ?? '' };
}

test('where the member on the host that stays is not fit to take over yet it waits for that one, and is moved to no other', async () => {
  await using world = await startTestController({ ...withAppliances, hosts: 3 });
  const { own, asked, addressOf } = await leavingTwo(world, 3, () => true);
  const signal = AbortSignal.timeout(30_000);
  for (let look = 0; look < 2; look += 1) {
    assert.deepEqual(await leaveDraining(world.deps, own.id, signal), { againInMs: 30_000 });
  }
  assert.deepEqual(new Set(asked), new Set([addressOf('host3')]));
  const waits = (await world.client.call(hostRoutes.get, { params: { host: 'host1' } })).waits.join('\n');
  assert.match(
    waits,
    /the primary of shop-postgres leaves for the member on host3 once that has all that was committed/,
  );
  assert.match(waits, /postgres of shop-postgres stays with its data, and no deadline ends it: flynn host drain host1/);
});

test('where one that stays is not fit yet another that stays takes over, and none whose host drains', async () => {
  await using world = await startTestController({ ...withAppliances, hosts: 4 });
  // Whichever of the two is asked first.
  let late: string | undefined;
  const { own, asked, addressOf } = await leavingTwo(world, 4, (host) => host === (late ??= host));
  assert.deepEqual(await leaveDraining(world.deps, own.id, AbortSignal.timeout(30_000)), { againInMs: 5_000 });
  assert.deepEqual(new Set(asked), new Set(['host3', 'host4'].map(addressOf)));
});
