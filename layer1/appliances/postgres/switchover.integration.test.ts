/** A PostgreSQL of three members: the lead goes to the one that is named, whichever had all that was committed before. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { startMembers } from './members-fixture.ts';
import { postgres } from './postgres.ts';

test('the copy that is named has all that was committed first, then takes over, and one copy is to have all again', async () => {
  const image = process.env['FLYNN_TEST_POSTGRES_IMAGE'] ?? '';
  const etcdImage = process.env['FLYNN_TEST_ETCD_IMAGE'] ?? '';
  await using place = await startMembers({ image, etcdImage, count: 3 });
  const { members } = await place.copied();
  const former = members.find(({ isPrimary }) => isPrimary)?.address;
  const next = members.find(({ isPrimary, isSynchronous }) => !isPrimary && !isSynchronous)?.address ?? '';
  await place.query('CREATE TABLE moved (); ALTER TABLE moved OWNER TO app');
  const moved = await place.exec([...postgres.commands.switchover, next]);
  assert.equal(moved.code, 0, moved.stderr);
  assert.deepEqual(JSON.parse(moved.stdout.toString()), { from: former, to: next });
  const isOne = async () => (await place.status()).members.filter(({ isSynchronous }) => isSynchronous).length === 1;
  await waitFor(isOne, { what: 'one synchronous copy', deadlineMs: 60_000, intervalMs: 500 });
  assert.equal(await place.query("SELECT to_regclass('moved')"), 'moved');
});
