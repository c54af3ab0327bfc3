import assert from 'node:assert/strict';
import { mkdtempDisposable, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import { Crowd, type Opener, holdersOf } from './crowd.ts';
import { runProgram } from './program.ts';

const opener = (address: string): Opener => ({ address, isTrusted: false });
const connection = (from: string, to: string): string =>
  `ipv4     2 tcp      6 431999 ESTABLISHED src=${from} dst=${to} sport=1 dport=2 src=${to} dst=${from} sport=2 dport=1 [ASSURED] mark=0 use=2\n` +
  `ipv4     2 udp      17 25 src=${from} dst=${to} sport=3 dport=4 [UNREPLIED] src=${to} dst=${from} sport=4 dport=3 mark=0 use=2\n`;

test('once the table is crowded, who has begun more than half of what there may be begins no more until there is room', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-crowd-'));
  const file = join(folder.path, 'nf_conntrack');
  const [many, few] = ['100.100.1.2', '100.100.1.3'];
  await writeFile(file, connection(many, few).repeat(3) + connection(few, many) + connection('192.0.2.2', many));
  const table = { used: 7, limit: 10 };
  let scripts = 0;
  let changes = 0;
  const crowd = new Crowd({
    containers: () => [few, many].map(opener),
    read: async () => table,
    run(command, signal) {
      scripts += 1;
      const args = command.args.map((one) => one.replaceAll('/proc/net/nf_conntrack', file));
      return runProgram({ ...command, args }, signal);
    },
    onChange: () => void (changes += 1),
    log: silentLogger(),
  });
  const { signal } = new AbortController();
  assert.equal(await crowd.look(signal), false);
  assert.deepEqual([crowd.holders, scripts, changes], [[], 0, 0]);
  table.used = 8;
  for (let times = 0; times < 2; times += 1) assert.equal(await crowd.look(signal), true);
  assert.deepEqual(crowd.holders, [
    { address: many, count: 6, isHeld: true },
    { address: few, count: 2, isHeld: false },
  ]);
  assert.deepEqual([crowd.held, scripts, changes], [[many], 2, 1]);
  table.used = 7;
  await crowd.look(signal);
  assert.deepEqual([crowd.held, scripts, changes], [[], 2, 2]);
  await writeFile(file, connection(few, many).repeat(4));
  table.used = 10;
  await crowd.look(signal);
  assert.deepEqual([crowd.held, changes], [[few], 3]);
});

test('where the kernel tracks none, or does not tell whose they are, nobody is held', async () => {
  const tables = [undefined, { used: 10, limit: 10 }];
  for (const table of tables) {
    const crowd = new Crowd({
      containers: () => [opener('100.100.1.2')],
      read: async () => table,
      run: async (command, signal) => {
        const args = command.args.map((one) => one.replaceAll('/proc/net/nf_conntrack', '/nonexistent'));
        return runProgram({ ...command, args }, signal);
      },
      onChange: () => assert.fail(),
      log: silentLogger(),
    });
    await crowd.look(new AbortController().signal);
    assert.deepEqual(crowd.held, []);
  }
});

test('what the host itself has begun, and containers that are gone, hold nobody', () => {
  const counts = '192.0.2.2 900\n100.100.1.9 900\n100.100.1.2 5\n';
  assert.deepEqual(holdersOf(counts, [opener('100.100.1.2')], { used: 1_805, limit: 1_800 }), [
    { address: '100.100.1.2', count: 5, isHeld: false },
  ]);
});

test("a part of the platform's is named, and not held: a router begins what others ask of it", () => {
  const router = { address: '100.100.1.2', isTrusted: true };
  assert.deepEqual(holdersOf('100.100.1.2 900\n', [router], { used: 950, limit: 1_000 }), [
    { address: '100.100.1.2', count: 900, isHeld: false },
  ]);
});
