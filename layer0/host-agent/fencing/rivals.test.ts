import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { createLogger, silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { cellKeys } from '@flynn/scheduler/cell';
import { createMemoryStore } from '@flynn/store/memory';
import { otherMachineFile } from './other-machine.ts';
import type { OtherMachineFile, SeenMachine } from './other-machine.ts';
import { OwnRuns } from './own-runs.ts';
import type { Rival } from './own-runs.ts';
import { Rivals, certainMs, notOwnMs, stopsSingletons, untilAlone } from './rivals.ts';

const rival = (lease: string): Rival => ({
  lease,
  record: { id: 'h1', address: '10.0.0.9', startedAt: 1 },
});

function logged() {
  const lines: string[] = [];
  const say = (level: string) => (line: unknown) => void lines.push(`${level}: ${String(line)}`);
  return {
    lines,
    rivals: new Rivals({ warn: say('warn'), error: say('error') }, otherMachineFile('/nonexistent', silentLogger())),
  };
}

test('what an agent of this host left is no other machine; who holds the record for longer is one, until it is gone', () => {
  const { rivals, lines } = logged();
  assert.equal(rivals.known(0), undefined);
  assert.equal(rivals.waitsFor(0), undefined);
  for (let atMs = 0; atMs < certainMs; atMs += 1_000) {
    rivals.met(rival('a'), false, atMs);
    assert.equal(rivals.known(atMs), undefined);
    assert.match(rivals.waitsFor(atMs) ?? '', /its former one, .*, or that of another machine/);
  }
  assert.deepEqual(
    lines.map((line) => line.split(':')[0]),
    ['warn'],
    'nobody is accused',
  );
  assert.match(lines[0] ?? '', /its former one/);
  rivals.met(rival('a'), false, certainMs);
  rivals.met(rival('a'), false, certainMs + 500);
  assert.deepEqual(rivals.known(certainMs), { address: '10.0.0.9', isTakenBack: false });
  assert.match(rivals.waitsFor(certainMs) ?? '', /^another machine is host h1 too/);
  assert.equal(lines.length, 2);
  assert.match(lines[1] ?? '', /^error: another machine is host h1 too: its agent, at 10\.0\.0\.9 since/);
  assert.equal(rivals.known(certainMs + 60_000), undefined);
  rivals.met(rival('b'), false, certainMs + 1_000);
  assert.equal(rivals.known(certainMs + 1_000), undefined, 'another lease is looked at anew');
});

test('one that was sent away is told of at once, for an hour', () => {
  const { rivals, lines } = logged();
  rivals.met(rival('a'), true, 0);
  assert.match(lines.join('\n'), /^error: another machine .*; this one has taken the record back$/);
  assert.deepEqual(rivals.known(0), { address: '10.0.0.9', isTakenBack: true });
  assert.equal(rivals.waitsFor(0), undefined);
  assert.notEqual(rivals.known(3_599_000), undefined);
  assert.equal(rivals.known(3_601_000), undefined);
});

test('singletons stop where the record is another machine’s, but for a host alone that lost its lease, until that is certain', () => {
  const alone = { isAlone: true, isCertain: false };
  assert.equal(stopsSingletons('taken', alone), true);
  assert.equal(stopsSingletons('found', alone), false);
  assert.equal(stopsSingletons('found', { ...alone, isCertain: true }), true);
  assert.equal(stopsSingletons('found', { isAlone: false, isCertain: false }), true);
});

test('an agent on a copy of the disk waits for as long as the host is there; on the host itself none waits', async (t) => {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-alone-'));
  t.after(() => rm(dir, { recursive: true }));
  await using store = createMemoryStore();
  const log = silentLogger();
  const lease = await store.grantLease({ ttlSeconds: 60 });
  const runs = await OwnRuns.open(dir, log);
  const say = async (address: string, localAddress?: string) => {
    const record = { ...rival('').record, address, localAddress, run: await runs.runOn(lease.id, undefined) };
    await store.transact({ then: [{ put: cellKeys.host('h1'), value: JSON.stringify(record), lease: lease.id }] });
  };
  const begin = async (own: string) => {
    const rivals = new Rivals(log, otherMachineFile(dir, log));
    const next = await OwnRuns.open(dir, log);
    const addresses = async () => new Set(['127.0.0.1', own]);
    let isThrough = false;
    const options = { store, runs: next, rivals, hostId: 'h1', signal: t.signal, log, addresses };
    const done = untilAlone(options).then(() => (isThrough = true));
    const met = () => waitFor(() => rivals.waitsFor(), { what: 'the other one', deadlineMs: 10_000, intervalMs: 5 });
    return { done, met, isThrough: () => isThrough };
  };
  await say('10.0.0.1');
  await runs.stand();
  // Killed and started again, nobody having seen its lease end.
  await (
    await begin('10.0.0.1')
  ).done;
  const copy = await begin('10.0.0.66');
  assert.match(await copy.met(), /at 10\.0\.0\.1, since 1970/);
  assert.equal(copy.isThrough(), false);
  await say('100.100.1.1', '192.168.0.7');
  // Behind NAT, where both have the tunnel's address.
  const behind = await begin('100.100.1.1');
  assert.match(await behind.met(), /at 192\.168\.0\.7, since/);
  await (
    await begin('192.168.0.7')
  ).done;
  assert.equal(behind.isThrough(), false);
  await lease.revoke();
  await Promise.all([copy.done, behind.done]);
  assert.equal(behind.isThrough(), true);
});

test('what an agent left in order is waited for by none, wherever the host is by now', async (t) => {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-alone-'));
  t.after(() => rm(dir, { recursive: true }));
  await using store = createMemoryStore();
  const log = silentLogger();
  const lease = await store.grantLease({ ttlSeconds: 60 });
  const before = await OwnRuns.open(dir, log);
  const record = { ...rival('').record, run: await before.runOn(lease.id, undefined) };
  await store.transact({ then: [{ put: cellKeys.host('h1'), value: JSON.stringify(record), lease: lease.id }] });
  await before.stand();
  await before.leave(lease.id);
  const runs = await OwnRuns.open(dir, log);
  const rivals = new Rivals(log, otherMachineFile(dir, log));
  const addresses = async () => new Set(['10.0.0.77']);
  await untilAlone({ store, runs, rivals, hostId: 'h1', signal: t.signal, log, addresses });
  assert.equal(rivals.waitsFor(), undefined);
});

test('who saw for certain that another machine is the host does not take its place by itself, restarted or not', async (t) => {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-aside-'));
  t.after(() => rm(dir, { recursive: true }));
  await using store = createMemoryStore();
  const said = new PassThrough();
  const log = createLogger('test', { destination: said });
  const before = await OwnRuns.open(dir, log);
  const file = otherMachineFile(dir, log);
  const stop = new AbortController();
  t.after(() => stop.abort());
  const announce = async (address: string) => {
    const lease = await store.grantLease({ ttlSeconds: 60 });
    const record = { ...rival('').record, address, run: await before.runOn(lease.id, undefined) };
    await store.transact({ then: [{ put: cellKeys.host('h1'), value: JSON.stringify(record), lease: lease.id }] });
    return lease;
  };
  const begin = async (own: string, signal: AbortSignal, rivals = new Rivals(log, file)) => {
    const runs = await OwnRuns.open(dir, log);
    const looks = { count: 0 };
    const addresses = async () => new Set((looks.count += 1) > 0 ? ['127.0.0.1', own] : []);
    let isThrough = false;
    const done = untilAlone({ store, runs, rivals, hostId: 'h1', signal, log, addresses }).then(
      () => (isThrough = true),
    );
    const looked = async () => {
      const until = looks.count + 2;
      await waitFor(() => looks.count >= until, { what: 'two looks', deadlineMs: 30_000, intervalMs: 5 });
    };
    return { done, rivals, looked, isThrough: () => isThrough };
  };
  await before.stand();
  const lease = await announce('10.0.0.1');
  const rivals = new Rivals(log, file);
  for (let agoMs = notOwnMs + 1_000; agoMs > 0; agoMs -= 5_000) {
    rivals.met(rival(lease.id), false, performance.now() - agoMs);
  }
  const first = new AbortController();
  const copy = await begin('10.0.0.66', first.signal, rivals);
  await copy.looked();
  await lease.revoke();
  await copy.looked();
  assert.equal(copy.isThrough(), false, 'the host is off for a moment');
  assert.match(String(said.read()), /was this host too, at 10\.0\.0\.1 .* FLYNN_ADDRESS=ADDRESS before it/);
  first.abort();
  await assert.rejects(copy.done);

  const restarted = await begin('10.0.0.66', stop.signal);
  await restarted.looked();
  assert.equal(restarted.isThrough(), false);
  assert.match(restarted.rivals.waitsFor() ?? '', /^another machine was this host too, at 10\.0\.0\.1/);
  assert.deepEqual(restarted.rivals.known(), { address: '10.0.0.1', isTakenBack: false, isGone: true });
  // What people's command does.
  await file.forget();
  await restarted.done;
  assert.equal(restarted.rivals.waitsFor(), undefined);
  assert.equal(restarted.rivals.known(), undefined);

  // With the other's address the machine is where the host is; and where the record says that it was here, it was.
  const seen = { address: '10.0.0.1', seenAt: 1 };
  await file.note(seen);
  await (
    await begin('10.0.0.1', stop.signal)
  ).done;
  await file.note(seen);
  await announce('10.0.0.66');
  await (
    await begin('10.0.0.66', stop.signal)
  ).done;
  assert.equal(await file.read(new Set()), undefined, 'it is over once this one has begun');
});

test('what is certain only of another place keeps a host out: not an agent at its own address, nor what is left of one', async (t) => {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-aside-'));
  t.after(() => rm(dir, { recursive: true }));
  const file = otherMachineFile(dir, silentLogger());
  const certainAt = async (own: string, leases: readonly string[], forMs = certainMs + 1_000) => {
    const rivals = new Rivals(silentLogger(), file);
    for (let agoMs = forMs, at = 0; agoMs > 0; agoMs -= 5_000, at += 1) {
      rivals.met(rival(leases[at % leases.length] ?? ''), false, performance.now() - agoMs);
    }
    await rivals.seen({ ...rival(leases[0] ?? ''), ...known }, new Set([own]));
    return rivals.before(new Set(['10.0.0.66']));
  };
  let known: Pick<Rival, 'mayBeOwn'> = { mayBeOwn: true };
  // Its own former one, whose lease an election gave its whole length again.
  assert.equal(await certainAt('10.0.0.66', ['a']), undefined);
  assert.equal((await certainAt('10.0.0.66', ['a'], notOwnMs + 1_000))?.address, '10.0.0.9');
  await file.forget();
  known = {};
  assert.equal(await certainAt('10.0.0.9', ['a']), undefined);
  assert.equal(await certainAt('10.0.0.66', ['a', 'b']), undefined);
  assert.equal((await certainAt('10.0.0.66', ['a']))?.address, '10.0.0.9');
});

test('what was asked of the disk before the agent began as the host is over once it has', async () => {
  const [asked, noted] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let onDisk: SeenMachine | undefined = { address: '10.0.0.9', seenAt: 1 };
  const file: OtherMachineFile = {
    async read() {
      const seen = onDisk;
      await asked.promise;
      return seen;
    },
    async note(seen) {
      await noted.promise;
      onDisk = seen;
    },
    forget: async () => void (onDisk = undefined),
  };
  const rivals = new Rivals(silentLogger(), file);
  const here = new Set(['10.0.0.66']);
  const before = rivals.before(here);
  for (let agoMs = certainMs + 1_000; agoMs > 0; agoMs -= 5_000)
    rivals.met(rival('a'), false, performance.now() - agoMs);
  const seen = rivals.seen(rival('a'), here);
  await rivals.begin();
  asked.resolve();
  noted.resolve();
  assert.equal(await before, undefined);
  assert.equal(rivals.known(), undefined);
  assert.equal(rivals.waitsFor(), undefined);
  await seen;
  assert.equal(onDisk, undefined, 'the next agent is not kept out by it');
});

test('a member is not taken for free a moment after another machine had its place', () => {
  const { rivals } = logged();
  assert.equal(rivals.wasMetLately(0), false);
  rivals.met(rival('a'), false, 0);
  assert.equal(rivals.wasMetLately(certainMs - 1), true);
  assert.equal(rivals.wasMetLately(certainMs), false);
  rivals.met(rival('a'), true, certainMs);
  assert.equal(rivals.wasMetLately(certainMs), false);
});
