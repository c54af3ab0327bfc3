/** A MariaDB of two members: who leads, and that what it had acknowledged is there afterwards. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import type { Status } from '../members-fixture.ts';
import { type MysqlMembers, Writer, appLogin, startMembers } from './members-fixture.ts';
import { mysql } from './mysql.ts';

const primaryOf = ({ members }: Status) => members.find(({ isPrimary }) => isPrimary);

async function numberOf(place: MysqlMembers, address: string | undefined): Promise<number> {
  const addresses = await Promise.all([1, 2].map((member) => place.addressOf(member)));
  return addresses.indexOf(address ?? '') + 1;
}

/** Once another than that one leads, and takes writes. */
function untilAnother(place: MysqlMembers, than: string | undefined): Promise<Status> {
  return waitFor(
    async () => {
      const said = await place.status();
      const now = primaryOf(said);
      return now?.state === 'running' && now.address !== than ? said : undefined;
    },
    { what: 'another primary', deadlineMs: 60_000, intervalMs: 200 },
  );
}

async function assertKept(place: MysqlMembers, confirmed: readonly number[]): Promise<void> {
  await place.status();
  const kept = new Set((await place.ask('SELECT n FROM notes')).split('\n').map(Number));
  assert.deepEqual(
    confirmed.filter((note) => !kept.has(note)),
    [],
  );
}

test('the lead is handed over and lost, and all that was acknowledged stays', async (t) => {
  await using place = await startMembers({ count: 2 });
  const first = primaryOf(await place.copied())?.address;
  const made = await place.askAs(appLogin, 'CREATE TABLE notes (n INT PRIMARY KEY)');
  assert.equal(made.code, 0, made.stderr);

  await t.test('who does not lead takes nothing, of admins neither', async () => {
    const copy = 3 - (await numberOf(place, first));
    const login = { name: 'admin', password: 'super' };
    for (const statement of ['CREATE DATABASE z', 'SET GLOBAL read_only=0']) {
      const said = await place.askAs(login, statement, copy);
      assert.match(said.stderr, /READ_ONLY ADMIN|read-only/, said.stderr);
    }
    assert.equal(
      await place.ask("SELECT CONVERT_TZ('2026-07-01 12:00', 'UTC', 'US/Eastern')", copy),
      '2026-07-01 08:00:00',
    );
    assert.equal(await place.ask("SHOW STATUS LIKE 'Rpl_semi_sync_master_status'"), 'Rpl_semi_sync_master_status\tON');
  });

  await t.test('handed over while it is written', async () => {
    const refused = await place.exec([...mysql.commands.switchover, first ?? '']);
    assert.deepEqual([refused.code, refused.stderr], [1, 'that member is the primary already\n']);
    await using writer = new Writer(place);
    await writer.more(10);
    const moved = await place.exec(mysql.commands.switchover);
    assert.equal(moved.code, 0, moved.stderr);
    const said = JSON.parse(moved.stdout.toString()) as { from: string; to: string };
    assert.equal(said.from, first);
    assert.equal(primaryOf(await untilAnother(place, first))?.address, said.to);
    await writer.more(10);
    await assertKept(place, await writer.stop());
  });

  await t.test('a primary that its host stops hands over first, and follows once it has begun again', async () => {
    const before = primaryOf(await place.copied())?.address;
    const stopped = await numberOf(place, before);
    await using writer = new Writer(place);
    await writer.more(10);
    // Longer than anybody waits for it.
    const long = place.askAs(appLogin, 'INSERT INTO notes SELECT -1 - SLEEP(100)');
    const isUnderWay = async () =>
      (await place.ask('SELECT info FROM information_schema.processlist')).includes('SLEEP(100)');
    await waitFor(isUnderWay, { what: 'it to be under way', deadlineMs: 30_000, intervalMs: 100 });
    await place.stop(stopped);
    assert.notEqual((await long).code, 0);
    await untilAnother(place, before);
    await writer.more(10);
    await place.start(stopped);
    await place.copied();
    await assertKept(place, await writer.stop());
    assert.doesNotMatch(await place.logOf(stopped), /it does not hand over/);
  });

  await t.test(
    'a primary that is killed is followed by its copy; back again it follows, with what it has',
    async () => {
      const before = primaryOf(await place.copied())?.address;
      const lost = await numberOf(place, before);
      await using writer = new Writer(place);
      await writer.more(10);
      await place.kill(lost);
      await untilAnother(place, before);
      await writer.more(10);
      await place.start(lost);
      await place.copied();
      await assertKept(place, await writer.stop());
      assert.doesNotMatch(await place.logOf(lost), /it has what .* does not have/);
    },
  );
});
