/** What is done with what is in a Valkey, by its programs: nothing of it is ever half there. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import type { Ended } from '../members-fixture.ts';
import { type RedisMembers, startMembers } from './members-fixture.ts';
import { redis } from './redis.ts';

const client = '/usr/lib/flynn/redis/flynn-redis-client';
const app = { name: 'app', password: 'own' };
const memoryBytes = 256 * 1024 ** 2;

function assertDone(ended: Ended): void {
  assert.equal(ended.code, 0, ended.stderr);
}

/** As the controller sends it. */
const inPieces = (data: Buffer, size = 65_536): Buffer => {
  const pieces: Buffer[] = [];
  for (let at = 0; at < data.length; at += size) {
    const piece = data.subarray(at, at + size);
    pieces.push(Buffer.from(`${piece.length}\n`), piece);
  }
  return Buffer.concat([...pieces, Buffer.from('0\n')]);
};

/** Sends all of it, and says in the packet of its last bytes that it waits for no answer; what that is all the same. */
const hangsUp = `
import os, socket, sys
with socket.create_connection((os.environ["REDIS_HOST"], 8008)) as asked:
    head = "PUT /data HTTP/1.1\\r\\nhost: a\\r\\nauthorization: Bearer " + os.environ["REDIS_MEMBERS_PASSWORD"] + "\\r\\n\\r\\n"
    body = sys.stdin.buffer.read()
    asked.sendall(head.encode() + body[:-2])
    asked.send(body[-2:], socket.MSG_MORE)
    asked.shutdown(socket.SHUT_WR)
    print(asked.makefile().read(), end="")
`;

async function untilCopied(place: RedisMembers, key: string, value: string): Promise<void> {
  const { members } = await place.copied();
  const copy = members.find(({ isPrimary }) => !isPrimary)?.address;
  const addresses = await Promise.all([1, 2].map((member) => place.addressOf(member)));
  const isThere = async () => (await place.ask(['GET', key], addresses.indexOf(copy ?? '') + 1)) === value;
  await waitFor(isThere, { what: `${key} on the copy`, deadlineMs: 30_000, intervalMs: 200 });
}

test('what is in it is dumped, and put back in the place of all that is there, or not at all', async (t) => {
  await using place = await startMembers({ count: 2 });
  await place.copied();
  await place.ask(['SET', 'mark', 'first']);
  await place.ask(['SET', 'leaving', 'soon', 'EX', '3600']);
  await place.ask(['EVAL', "for i = 1, 20000 do redis.call('HSET', 'h' .. i % 100, i, i) end", '0']);
  const dumped = await place.exec(redis.commands.dump);
  assertDone(dumped);
  const size = await place.ask(['DBSIZE']);
  const isSecond = async () => assert.equal(await place.ask(['GET', 'mark']), 'second');

  await t.test('what is no dump, is damaged, or is cut, changes nothing', async () => {
    await place.ask(['SET', 'mark', 'second']);
    const damaged = Buffer.from(dumped.stdout);
    const half = Math.floor(damaged.length / 2);
    damaged.fill(7, half, half + 2_000);
    for (const [input, said] of [
      [inPieces(Buffer.from('REDIS and nothing of the kind')), /^the dump is damaged, or of a later version than this/],
      [inPieces(Buffer.from('CREATE TABLE a();')), /^this is no dump of Redis or Valkey/],
      [inPieces(damaged), /^the dump is damaged/],
      [inPieces(dumped.stdout.subarray(0, -100)), /^the dump is damaged/],
      [inPieces(dumped.stdout).subarray(0, -2), /^what was to be restored ended before its end/],
      [Buffer.alloc(0), /^what was to be restored ended before its end/],
    ] as const) {
      const refused = await place.exec(redis.commands.import, { input });
      assert.equal(refused.code, 1);
      assert.match(refused.stderr, said);
      await isSecond();
    }
    const left = await place.exec(['sh', '-c', 'ls /data/replacement']);
    assert.equal(left.stdout.toString(), '');
  });

  await t.test('nobody waits for it any more: nothing changes', async () => {
    const gone = await place.exec(['python3', '-c', hangsUp], { input: inPieces(dumped.stdout) });
    assert.match(gone.stdout.toString(), / 409 .*who asked for it is gone: nothing was replaced$/s, gone.stderr);
    await isSecond();
  });

  await t.test('a dump takes the place of what is there, on the copy as well', async () => {
    await place.ask(['SET', 'later', 'yes']);
    for (const member of [1, 2]) {
      await place.ask(['SET', 'mark', 'second']);
      const imported = await place.exec(redis.commands.import, { input: inPieces(dumped.stdout), member });
      assertDone(imported);
      const { before, after } = JSON.parse(imported.stdout.toString()) as Record<string, { keys: number }>;
      assert.equal(after?.keys, Number(size));
      assert.equal(before?.keys, Number(size) + (member === 1 ? 1 : 0));
      assert.equal(await place.ask(['GET', 'mark']), 'first');
      assert.equal(await place.ask(['GET', 'later']), '');
      const left = Number(await place.ask(['TTL', 'leaving']));
      assert.ok(left > 3_000 && left <= 3_600, String(left));
      await untilCopied(place, 'mark', 'first');
    }
    assertDone(await place.exec(redis.commands.restore, { input: dumped.stdout }));
    assertDone(await place.askAs(app, ['SET', 'mark', 'third']));
    await untilCopied(place, 'mark', 'third');
  });

  await t.test('what was put back is there when all begin anew at once, and when the copy takes over', async () => {
    assertDone(await place.exec(redis.commands.import, { input: inPieces(dumped.stdout) }));
    await Promise.all([place.kill(1), place.kill(2)]);
    await Promise.all([place.start(1), place.start(2)]);
    await place.copied();
    assert.equal(await place.ask(['GET', 'mark']), 'first');
    const { members } = await place.copied();
    const before = members.find(({ isPrimary }) => isPrimary)?.address;
    assertDone(await place.exec(redis.commands.switchover));
    const now = (await place.copied()).members.find(({ isPrimary }) => isPrimary)?.address;
    assert.notEqual(now, before);
    assert.equal(await place.ask(['GET', 'mark']), 'first');
  });

  await t.test('it says how it is, and is full before its host takes its memory', async () => {
    const { database } = await place.status();
    assert.match(database?.version ?? '', /^\d+\.\d+\.\d+$/);
    assert.equal(database?.keys, Number(size));
    const most = Number(await place.ask(['CONFIG', 'GET', 'maxmemory']).then((said) => said.split('\n')[1]));
    assert.equal(most, memoryBytes / 2);
    const fill = async (most: string, says: RegExp): Promise<void> => {
      await place.ask(['CONFIG', 'SET', 'maxmemory', most]);
      const full = await place.askAs(app, ['SET', 'more', 'x']);
      assert.match(full.stderr + full.stdout.toString(), /OOM command not allowed/);
      const large = await place.exec(redis.commands.import, { input: inPieces(dumped.stdout) });
      assert.equal(large.code, 1);
      assert.match(large.stderr, says);
    };
    await place.ask(['SET', 'mark', 'second']);
    await place.copied();
    await fill('50kb', /^the dump has more than 51200 bytes, which is the room in memory: raise the limit first/);
    // A file that is small, and more in memory: that is known once what was there is gone from it.
    const { members } = await place.status();
    const addresses = await Promise.all([1, 2].map((member) => place.addressOf(member)));
    const primary = addresses.indexOf(members.find(({ isPrimary }) => isPrimary)?.address ?? '') + 1;
    await fill(
      '500kb',
      /^it takes \d+ bytes of memory, and may take 512000: raise the limit first; what was there before/,
    );
    await place.restarted(primary);
    await place.copied();
    assert.equal(await place.ask(['GET', 'mark']), 'second');
  });
});

test('apps log in as those who are let in, and do what is theirs', async () => {
  await using place = await startMembers({ count: 2 });
  await place.copied();
  const first = { name: 'app', password: 'own' };
  const next = { name: 'app_1', password: 'other' };
  const isIn = async (login: typeof first) => (await place.askAs(login, ['SET', 'by', login.name])).code === 0;
  const tell = async ({ command, input }: ReturnType<typeof redis.logins.admit>) =>
    assertDone(await place.exec(command, { input: Buffer.from(input) }));
  assert.deepEqual([await isIn(first), await isIn(next)], [true, false]);
  for (const member of [1, 2]) assertDone(await place.askAs(first, ['GET', 'by'], member));
  await tell(redis.logins.letIn([next]));
  assert.deepEqual([await isIn(first), await isIn(next)], [true, true]);
  // One that waits for something is not let wait on.
  const waiting = place.askAs(first, ['BLPOP', 'nothing', '300']);
  await waitFor(async () => (await place.ask(['CLIENT', 'LIST'])).includes('cmd=blpop'), {
    what: 'it to wait',
    deadlineMs: 60_000,
    intervalMs: 100,
  });
  await tell(redis.logins.admit([next]));
  assert.equal((await waiting).code, 1);
  assert.deepEqual([await isIn(first), await isIn(next)], [false, true]);
  // The next primary, and one that begins anew, let in the same.
  assertDone(await place.exec(redis.commands.switchover));
  await place.copied();
  assert.deepEqual([await isIn(first), await isIn(next)], [false, true]);
  const nobody = await place.exec([client, 'admit']);
  assert.deepEqual([nobody.code, nobody.stderr], [1, 'nobody was to be admitted\n']);

  for (const words of [
    ['CONFIG', 'GET', 'masterauth'],
    ['SHUTDOWN'],
    ['REPLICAOF', 'NO', 'ONE'],
    ['FAILOVER'],
    ['ACL', 'LIST'],
    ['MODULE', 'LIST'],
    ['SAVE'],
    ['BGREWRITEAOF'],
    ['MONITOR'],
    ['MIGRATE', 'h', '1', 'k', '0', '10'],
    ['CLIENT', 'KILL', 'USER', 'flynn'],
    ['PSYNC', '?', '-1'],
  ]) {
    const refused = await place.askAs(next, words);
    assert.match(refused.stderr + refused.stdout.toString(), /NOPERM/, words.join(' '));
  }
  for (const words of [
    ['INFO'],
    ['FLUSHDB'],
    ['KEYS', '*'],
    ['ROLE'],
    ['ACL', 'WHOAMI'],
    ['EVAL', 'return 1', '0'],
    ['FUNCTION', 'LOAD', "#!lua name=l\nserver.register_function('f', function() return 1 end)"],
    ['PUBLISH', 'c', 'm'],
    ['SLOWLOG', 'GET'],
  ]) {
    assertDone(await place.askAs(next, words));
  }
  const unknown = await place.askAs({ name: 'default', password: '' }, ['PING']);
  assert.match(unknown.stderr + unknown.stdout.toString(), /NOAUTH|WRONGPASS/);
});
