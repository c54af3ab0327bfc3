/** A PostgreSQL of three members: the lead goes to the one that is named, whichever had all that was committed before. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { type PostgresMembers, startMembers } from './members-fixture.ts';
import { postgres } from './postgres.ts';

const client = '/usr/lib/flynn/flynn-postgres-members';

/** How many copies are to have all that is committed. */
async function wantedCopies(place: PostgresMembers): Promise<number> {
  const script =
    "import json, urllib.request as u; print(json.load(u.urlopen('http://127.0.0.1:8008/config'))['synchronous_node_count'])";
  return Number((await place.exec(['python3', '-c', script])).stdout.toString());
}

/** What its copy gets of the primary's log stays where it is, or goes on. */
async function signalReceiver(place: PostgresMembers, member: number, signal: 'STOP' | 'CONT'): Promise<void> {
  // The brackets keep the shell from finding itself.
  const script = `for p in /proc/[0-9]*; do grep -q 'walreceive[r]' $p/cmdline && kill -${signal} \${p#/proc/}; done; true`;
  const ended = await place.exec(['sh', '-c', script], { member });
  assert.equal(ended.code, 0, ended.stderr);
}

test('the copy that is named has all that was committed first, then takes over, and one copy is to have all again', async () => {
  await using place = await startMembers({ count: 3 });
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

  // Whoever asks is gone while the program waits: commits do not wait for all copies for ever.
  const { members: now } = await place.copied();
  const behind = now.find(({ isPrimary, isSynchronous }) => !isPrimary && !isSynchronous)?.address ?? '';
  const addresses = await Promise.all([1, 2, 3].map((member) => place.addressOf(member)));
  const member = addresses.indexOf(behind) + 1;
  await signalReceiver(place, member, 'STOP');
  await place.query('CREATE TABLE late ()');
  const left = place.exec(['timeout', '4', client, 'switchover', behind]);
  const isAll = async () => (await wantedCopies(place)) === 2;
  await waitFor(isAll, { what: 'all copies to be waited for', deadlineMs: 4_000, intervalMs: 100 });
  assert.equal((await left).code, 124);
  assert.equal(await wantedCopies(place), 1);
  await signalReceiver(place, member, 'CONT');
});
