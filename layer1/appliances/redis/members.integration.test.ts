/** A Valkey of two members: who leads, and that what it had acknowledged is there afterwards. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { pause } from '@flynn/kit/clock';
import { waitFor } from '@flynn/kit/retry';
import type { Status } from '../members-fixture.ts';
import { type RedisMembers, Writer, startMembers } from './members-fixture.ts';
import { redis } from './redis.ts';

const run = promisify(execFile);
/** Longer than a lead lasts without being renewed. */
const aWhileMs = 12_000;
const leadMs = 8_000;

const primaryOf = ({ members }: Status) => members.find(({ isPrimary }) => isPrimary);

async function numberOf(place: RedisMembers, address: string | undefined): Promise<number> {
  const addresses = await Promise.all([1, 2].map((member) => place.addressOf(member)));
  return addresses.indexOf(address ?? '') + 1;
}

/** Once another than that one leads, and whoever else is there follows it. */
function untilAnother(place: RedisMembers, than: string | undefined): Promise<Status> {
  return waitFor(
    async () => {
      const said = await place.status();
      const now = primaryOf(said);
      return now?.state === 'running' && now.address !== than ? said : undefined;
    },
    { what: 'another primary', deadlineMs: 60_000, intervalMs: 200 },
  );
}

async function assertKept(place: RedisMembers, confirmed: readonly string[]): Promise<void> {
  await place.status();
  const kept = new Set((await place.ask(['LRANGE', 'notes', '0', '-1'])).split('\n'));
  assert.deepEqual(
    confirmed.filter((note) => !kept.has(note)),
    [],
  );
}

test('the lead is handed over, lost and begun anew, and what was acknowledged and copied stays', async (t) => {
  await using place = await startMembers({ count: 2 });
  const first = primaryOf(await place.copied())?.address;

  await t.test('handed over while it is written: nothing that was acknowledged is lost', async () => {
    await using writer = new Writer(() => place.primary());
    await writer.more(200);
    const moved = await place.exec(redis.commands.switchover);
    assert.equal(moved.code, 0, moved.stderr);
    const said = JSON.parse(moved.stdout.toString()) as { from: string; to: string };
    assert.equal(said.from, first);
    assert.equal(primaryOf(await untilAnother(place, first))?.address, said.to);
    await writer.more(200);
    const confirmed = await writer.stop();
    await assertKept(place, confirmed);
  });

  await t.test('to one that is named, and not to who leads already or to nobody', async () => {
    const second = primaryOf(await place.copied())?.address ?? '';
    const refused = await place.exec([...redis.commands.switchover, second]);
    assert.deepEqual([refused.code, refused.stderr], [1, 'that member is the primary already\n']);
    const nobody = await place.exec([...redis.commands.switchover, '10.9.9.9']);
    assert.deepEqual([nobody.code, nobody.stderr], [1, 'no member is at 10.9.9.9\n']);
    const named = await place.exec([...redis.commands.switchover, first ?? '']);
    assert.equal(named.code, 0, named.stderr);
    assert.equal(primaryOf(await untilAnother(place, second))?.address, first);
  });

  await t.test('a primary that is stopped hands over as it goes', async () => {
    const before = primaryOf(await place.copied())?.address;
    await using writer = new Writer(() => place.primary());
    await writer.more(100);
    const stopped = await numberOf(place, before);
    await place.stop(stopped);
    await untilAnother(place, before);
    await writer.more(100);
    await assertKept(place, await writer.stop());
    await place.start(stopped);
  });

  await t.test('a primary that is killed is followed by its copy; back again it follows', async () => {
    await place.ask(['SET', 'copied', 'yes']);
    const before = primaryOf(await place.copied())?.address;
    const lost = await numberOf(place, before);
    // WAIT is about what its own connection wrote.
    const isCopied = async () => (await place.ask(['GET', 'copied'], 3 - lost)) === 'yes';
    await waitFor(isCopied, { what: 'the copy to have it', deadlineMs: 60_000, intervalMs: 200 });
    await place.kill(lost);
    const now = await untilAnother(place, before);
    assert.equal(await place.ask(['GET', 'copied']), 'yes');
    await place.start(lost);
    const whole = await place.copied();
    assert.equal(primaryOf(whole)?.address, primaryOf(now)?.address);
  });

  await t.test('the store is away: who leads and is reached by its copy goes on', async () => {
    // On a machine that stands still its copy may be silent meanwhile, too, for the second that it has to answer.
    const refused: number[] = [];
    while (refused.length < 3 && refused.at(-1) !== 0) {
      const before = primaryOf(await place.copied())?.address;
      await using writer = new Writer(() => place.primary());
      await writer.more(50);
      await place.freezeStore();
      await pause(aWhileMs, t.signal);
      await writer.more(50);
      await place.thawStore();
      await pause(aWhileMs, t.signal);
      refused.push(writer.refused);
      assert.equal(primaryOf(await place.copied())?.address, before);
      await assertKept(place, await writer.stop());
    }
    assert.equal(refused.at(-1), 0, `refused were ${refused.join(', ')} times`);
  });

  await t.test('a primary that is cut off takes nothing before another leads', async () => {
    const before = primaryOf(await place.copied())?.address;
    const lost = await numberOf(place, before);
    const others = write(place, 3 - lost, { isOnce: true });
    const own = write(place, lost);
    await own.begun;
    await place.cutOff(lost);
    await untilAnother(place, before);
    const firstOfOther = (await others.taken)[0]?.answered ?? assert.fail('the other takes nothing');
    // What it takes now it would take beside the other.
    await pause(2_000, t.signal);
    await run('docker', ['exec', place.nameOf(lost), 'touch', '/tmp/enough']);
    const lastOfOwn = (await own.taken).at(-1)?.sent ?? assert.fail('it took nothing at all');
    assert.ok(lastOfOwn <= firstOfOther, `it took something ${lastOfOwn - firstOfOther} s after the other had`);
    await place.join(lost);
    await place.copied();
  });

  await t.test('all of them killed: what was on their disks is there, by the one that has most', async () => {
    await place.ask(['SET', 'settled', 'yes']);
    await pause(4_000, t.signal);
    await place.copied();
    await Promise.all([place.kill(1), place.kill(2)]);
    await pause(leadMs + 1_000, t.signal);
    await Promise.all([place.start(1), place.start(2)]);
    await place.copied();
    assert.equal(await place.ask(['GET', 'settled']), 'yes');
  });
});

/**
 * What the member itself takes until there is /tmp/enough, or the first of it; when, by the clock that both have. `begun`: once
 * it has.
 */
function write(place: RedisMembers, member: number, { isOnce = false } = {}) {
  const script = `while [ ! -e /tmp/enough ]; do
    read sent rest </proc/uptime
    said=$(REDISCLI_AUTH=own valkey-cli --user app --no-auth-warning SET written late)
    read answered rest </proc/uptime
    if [ "$said" = OK ]; then echo $sent $answered${isOnce ? '; exit' : ''}; fi
    sleep 0.05
  done`;
  const running = run('docker', ['exec', place.nameOf(member), 'timeout', '120', 'sh', '-c', script]);
  const taken = running.then(({ stdout }) =>
    stdout
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => line.split(' ').map(Number))
      .map(([sent = Number.NaN, answered = Number.NaN]) => ({ sent, answered })),
  );
  const { stdout } = running.child;
  assert.ok(stdout !== null);
  return { taken, begun: Promise.race([once(stdout, 'data'), taken]) };
}
