import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { otherMachineFile } from '@flynn/host-agent/fencing/other-machine';
import { OwnRuns } from '@flynn/host-agent/fencing/own-runs';
import { FlynnError } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { cellKeys } from '@flynn/scheduler/cell';
import { createMemoryStore } from '@flynn/store/memory';
import type { Entry } from '@flynn/store/store';
import { type Asked, refuseOtherMachine } from './other-machine.ts';

test('a copy of a host is brought up nowhere while that one lives; a host that moved is', async (t) => {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-other-machine-'));
  t.after(() => rm(dir, { recursive: true }));
  await using store = createMemoryStore();
  const lease = await store.grantLease({ ttlSeconds: 60 });
  const runs = await OwnRuns.open(dir, silentLogger());
  const record = {
    id: 'h1',
    address: '10.0.0.1',
    apiPort: 1113,
    startedAt: 77,
    capacity: { memoryBytes: 1, cpuMillis: 1 },
    run: await runs.runOn(lease.id, undefined),
  };
  const say = async (said: object) =>
    store.transact({ then: [{ put: cellKeys.host('h1'), value: JSON.stringify(said), lease: lease.id }] });
  await say(record);
  await runs.stand();
  const host = { hostId: 'h1', address: '10.0.0.1', site: undefined };
  const lines: string[] = [];
  const asked: Asked = {
    addresses: async () => new Set(['127.0.0.1', '10.0.0.66']),
    record: () => store.get(cellKeys.host('h1')),
    agentSince: async () => undefined,
    report: (line) => void lines.push(line),
    patienceMs: 0,
  };
  const refused = {
    code: 'conflict',
    message: /another machine is host h1 too: its agent, at 10\.0\.0\.1 .*Nothing was/,
  };
  await assert.rejects(refuseOtherMachine(dir, host, asked), refused);
  // The agent of the copy waits as well.
  await assert.rejects(refuseOtherMachine(dir, host, { ...asked, agentSince: async () => 99 }), refused);
  assert.deepEqual(lines, []);
  // The host's own agent, which began before its machine's address became another one.
  await refuseOtherMachine(dir, host, { ...asked, agentSince: async () => 77 });
  await refuseOtherMachine(dir, host, { ...asked, addresses: async () => new Set(['10.0.0.1']) });
  const away = async (): Promise<never> => {
    throw new FlynnError('unavailable', 'nobody answers');
  };
  await refuseOtherMachine(dir, host, { ...asked, record: away });
  assert.match(lines.splice(0).join('\n'), /^the store does not tell .* h1 too: this one is taken for it, as you say/);
  // Behind NAT both have the tunnel's address.
  const behind = { ...host, address: '100.100.1.1', site: 'home' };
  await say({ ...record, address: '100.100.1.1', localAddress: '192.168.0.7' });
  const at = (own: string) => ({ ...asked, addresses: async () => new Set(['100.100.1.1', own]) });
  await assert.rejects(refuseOtherMachine(dir, behind, at('192.168.0.8')), { code: 'conflict' });
  await refuseOtherMachine(dir, behind, at('192.168.0.7'));
  // What a killed agent left is waited for, and told.
  setTimeout(() => void lease.revoke(), 100);
  await refuseOtherMachine(dir, behind, { ...at('192.168.0.8'), patienceMs: 20_000 });
  assert.deepEqual(lines, ['waiting for what an agent at another address left of host h1 to end, if it did end']);
});

test('a machine whose agent stands aside is the host by this command alone, and only where the other one is off', async (t) => {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-other-machine-'));
  t.after(() => rm(dir, { recursive: true }));
  await using store = createMemoryStore();
  const lease = await store.grantLease({ ttlSeconds: 60 });
  const elsewhere = { id: 'h1', address: '10.0.0.66', apiPort: 1113, startedAt: 77, run: { id: 'other' } };
  const value = JSON.stringify({ ...elsewhere, capacity: { memoryBytes: 1, cpuMillis: 1 } });
  await store.transact({ then: [{ put: cellKeys.host('h1'), value, lease: lease.id }] });
  const file = otherMachineFile(dir, silentLogger());
  await file.note({ address: '10.0.0.66', seenAt: 1 });
  const own = new Set(['10.0.0.1']);
  const lines: string[] = [];
  const asked: Asked = {
    addresses: async () => own,
    record: () => store.get(cellKeys.host('h1')),
    agentSince: async () => undefined,
    report: (line) => void lines.push(line),
    patienceMs: 0,
  };
  const host = { hostId: 'h1', address: '10.0.0.1', site: undefined };
  // Also where it has the address it was known by.
  await assert.rejects(refuseOtherMachine(dir, host, asked), { code: 'conflict' });
  assert.notEqual(await file.read(own), undefined);
  await lease.revoke();
  await refuseOtherMachine(dir, host, asked);
  assert.equal(await file.read(own), undefined);
  assert.match(lines.join(), /10\.0\.0\.66, where another machine was host h1, announces it no more/);
});

test('one that was seen is not gone because the store does not answer; only one that never answers leaves it to who asks', async (t) => {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-other-machine-'));
  t.after(() => rm(dir, { recursive: true }));
  const file = otherMachineFile(dir, silentLogger());
  const own = new Set(['10.0.0.66']);
  const other = { id: 'h1', address: '10.0.0.1', apiPort: 1113, startedAt: 77, run: { id: 'other' } };
  const value = JSON.stringify({ ...other, capacity: { memoryBytes: 1, cpuMillis: 1 } });
  const entry: Entry = { key: cellKeys.host('h1'), value, lease: '1', createRevision: 1, modRevision: 1 };
  const host = { hostId: 'h1', address: '10.0.0.1', site: undefined };
  const lines: string[] = [];
  /** One after the other, and the last of them from then on. */
  const ask = async (patienceMs: number, ...answers: readonly (Entry | 'none' | 'away')[]) => {
    await file.note({ address: '10.0.0.1', seenAt: 1 });
    lines.length = 0;
    let looks = 0;
    const asked: Asked = {
      addresses: async () => own,
      async record() {
        const answer = answers[looks] ?? answers.at(-1);
        looks += 1;
        if (answer === 'away') throw new FlynnError('unavailable', 'nobody leads');
        return answer === 'none' ? undefined : answer;
      },
      agentSince: async () => undefined,
      report: (line) => void lines.push(line),
      patienceMs,
      lookMs: 10,
    };
    await refuseOtherMachine(dir, host, asked);
    return looks;
  };
  await assert.rejects(ask(200, entry, 'away'), { code: 'conflict', message: /at 10\.0\.0\.1 .*Nothing was changed/ });
  assert.notEqual(await file.read(own), undefined);
  assert.equal(lines.length, 1, 'nobody is said to be gone');
  // Seen by a later look, as by the first.
  await assert.rejects(ask(200, 'away', entry, 'away'), { code: 'conflict' });
  assert.notEqual(await file.read(own), undefined);
  assert.equal(await ask(60_000, entry, 'away', 'none'), 3);
  assert.match(lines.at(-1) ?? '', /announces it no more/);
  assert.equal(await file.read(own), undefined);
  assert.equal(await ask(60_000, 'away'), 3, 'an election is no word of anybody');
  assert.deepEqual(
    lines.map((line) => line.split(': ')[1]?.split(',')[0]),
    ['asking again', 'this one is taken for it'],
  );
  assert.equal(await file.read(own), undefined);
});
