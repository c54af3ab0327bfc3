import assert from 'node:assert/strict';
import { mkdir, mkdtempDisposable, readFile, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { test } from 'node:test';
import { createLogger, silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { Watchdog } from './watchdog.ts';

test('the first watchdog of a host runs at once, though its folder was not there', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-watchdog-'));
  const dir = join(folder.path, 'watchdog');
  const lines: string[] = [];
  const destination = new Writable({ write: (chunk, _encoding, done) => (lines.push(String(chunk)), done()) });
  const watchdog = new Watchdog({ dir, log: createLogger('test', { destination }) });
  await watchdog.guard(performance.now() + 60_000, ['0123456789abcdef']);
  const readPid = async () => Number(await readFile(join(dir, 'watchdog.pid'), 'utf8')) || undefined;
  const pid = await waitFor(readPid, { what: 'the watchdog', deadlineMs: 60_000 });
  try {
    assert.deepEqual(lines, []);
    assert.match(await readFile(`/proc/${pid}/cmdline`, 'utf8'), /flynn-watchdog/);
  } finally {
    process.kill(pid, 'SIGKILL');
  }
});

test('what an agent before left to be guarded has its time cut, never added to, until this one guards for itself', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-watchdog-'));
  const dir = join(folder.path, 'watchdog');
  const id = '0123456789abcdef';
  const fence = async () => (await readFile(join(dir, 'fence'), 'utf8')).split('\n');
  const uptime = async () => Number((await readFile('/proc/uptime', 'utf8')).split(' ')[0]) * 100;
  await mkdir(dir);
  const inherited = Math.round((await uptime()) + 30_000 * 100);
  await writeFile(join(dir, 'fence'), `${inherited}\n${id}\n`);
  const watchdog = new Watchdog({ dir, log: silentLogger() });
  watchdog.resume();
  const readPid = async () => Number(await readFile(join(dir, 'watchdog.pid'), 'utf8')) || undefined;
  const pid = await waitFor(readPid, { what: 'the watchdog', deadlineMs: 60_000 });
  try {
    await watchdog.limit(performance.now() + 60_000_000);
    assert.deepEqual(await fence(), [String(inherited), id, '']);
    const before = await uptime();
    await watchdog.limit(performance.now() + 600_000);
    const [deadline = '', ...ids] = await fence();
    assert.deepEqual(ids, [id, '']);
    assert.ok(Number(deadline) < inherited && Number(deadline) >= before, deadline);
    // The lease that it comes from is renewed; what is left of the first deadline still counts.
    await watchdog.limit(performance.now() + 1_200_000);
    assert.ok(Number((await fence())[0]) > Number(deadline));

    const other = 'fedcba9876543210';
    await watchdog.guard(performance.now() + 600_000, [other]);
    const guarded = await fence();
    await watchdog.limit(performance.now() + 60_000);
    assert.deepEqual(await fence(), guarded);
    assert.equal(guarded[1], other);
  } finally {
    process.kill(pid, 'SIGKILL');
  }
});

test('on a disk without room the deadline is moved on all the same', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-watchdog-'));
  const dir = join(folder.path, 'watchdog');
  const [one, other] = ['0123456789abcdef', 'fedcba9876543210'];
  const fence = async () => (await readFile(join(dir, 'fence'), 'utf8')).split('\n');
  const watchdog = new Watchdog({ dir, log: silentLogger() });
  await watchdog.guard(performance.now() + 60_000, [one, other]);
  const readPid = async () => Number(await readFile(join(dir, 'watchdog.pid'), 'utf8')) || undefined;
  const pid = await waitFor(readPid, { what: 'the watchdog', deadlineMs: 60_000 });
  try {
    const [before] = await fence();
    await symlink('/dev/full', join(dir, 'fence.new'));
    await watchdog.guard(performance.now() + 600_000, [one]);
    const [deadline, ...ids] = await fence();
    assert.deepEqual(ids, [one, '']);
    assert.ok(Number(deadline) > Number(before), deadline);
  } finally {
    process.kill(pid, 'SIGKILL');
  }
});
