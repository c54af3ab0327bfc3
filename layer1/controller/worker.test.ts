import assert from 'node:assert/strict';
import { test } from 'node:test';
import { kindNames } from '@flynn/appliances/kinds';
import { waitFor } from '@flynn/kit/retry';
import { nameKey, resourcePrefix } from '@flynn/resource/keys';
import { leaderKey } from '@flynn/resource/lease';
import { withAppliances } from './datastores/datastore-fixture.ts';
import { providers } from './providers/api.ts';
import { startTestController } from './testing.ts';
import type { TestController } from './testing.ts';
import { workerSeat } from './worker-seat.ts';

const wait = { deadlineMs: 60_000, intervalMs: 5 };

/** Once there are so many. */
function providerRecords({ store }: TestController, count: number) {
  const look = async () => {
    const { entries } = await store.list(resourcePrefix('provider'));
    return entries.length === count && entries;
  };
  return waitFor(look, { what: `${count} providers`, ...wait });
}

function termOf({ store }: TestController): Promise<number> {
  const look = async () => (await store.get(leaderKey(workerSeat)))?.createRevision;
  return waitFor(look, { what: 'a term', ...wait });
}

test('a provider of a later version ends no term: the others are added, what is deployed is, and it is there itself once it can be', async () => {
  await using world = await startTestController(withAppliances);
  const { release } = await world.deployApp('shop', { web: {} });
  const all = await providerRecords(world, kindNames.length);
  const isOf = (name: string) => all.filter(({ value }) => value.includes(`"name":"${name}"`));
  const [postgres] = isOf('postgres');
  const [redis] = isOf('redis');
  assert.ok(postgres !== undefined && redis !== undefined);
  await world.stopWorker();
  const later = postgres.value.replace('"version":1,', '"version":1000,');
  await world.store.transact({
    then: [{ put: postgres.key, value: later }, { delete: redis.key }, { delete: nameKey('provider', 'redis') }],
  });
  await world.restartWorker();
  const term = await termOf(world);
  await providerRecords(world, kindNames.length);
  for (let count = 0; count < 3; count += 1) {
    assert.equal((await world.deploy('shop', release.id)).state, 'complete');
  }
  assert.equal(await termOf(world), term);
  await world.store.transact({ then: [{ delete: postgres.key }, { delete: nameKey('provider', 'postgres') }] });
  await providerRecords(world, kindNames.length);
  const names = (await world.client.call(providers.list, {})).map(({ name }) => name);
  assert.deepEqual(names.toSorted(), kindNames.toSorted());
});
