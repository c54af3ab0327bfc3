import assert from 'node:assert/strict';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { encoded, openTestHistory } from './testing.ts';
import { bornMsOf, keepBornMs } from './volume.ts';
import { deadlineMs, startSyslog, startDrains, drain } from './drain-fixture.ts';

test('a drain that is older than the volume gets what hosts told again since; one that is not begins at the end', async (t) => {
  await using env = await openTestHistory();
  const server = await startSyslog(t);
  const now = Date.now();
  const volume = join(env.dir, 'volume');
  await mkdir(volume);
  const born = { bornMs: now, isKept: true };
  assert.deepEqual(await bornMsOf(volume, { now, log: silentLogger() }), born);
  assert.deepEqual(await bornMsOf(volume, { now: now + 1, log: silentLogger() }), born, 'it is kept');
  const { bornMs } = born;
  const { drains, statusOf } = await startDrains(t, env, { bornMs });
  await env.history.append('a', encoded(0, 5));
  const made = (afterMs: number) => new Date(bornMs + afterMs).toISOString();
  const url = `syslog+tcp://127.0.0.1:${server.port}`;
  await drains.add(drain({ id: 'older', url, createdAt: made(-86_400_000) }));
  await drains.add(drain({ id: 'clock-behind', url, createdAt: made(1_000) }));
  await drains.add(drain({ id: 'later', url, createdAt: made(600_000) }));
  await drains.add(drain({ id: 'untold', url }));
  await env.history.append('a', encoded(5, 1));
  const ids = ['older', 'clock-behind', 'later', 'untold'];
  await waitFor(() => ids.every((id) => statusOf(id).waiting === 0), { what: 'all lines', deadlineMs });
  assert.deepEqual(
    ids.map((id) => statusOf(id).sent),
    [6, 6, 1, 1],
  );
  await drains.close();
});

test('a volume that a version before has filled is older than any drain', async () => {
  await using env = await openTestHistory();
  const born = { bornMs: 0, isKept: true };
  assert.deepEqual(await bornMsOf(env.dir, { now: 1_000, log: silentLogger() }), born);
});

test('where it cannot be written since when a volume is there, that keeps nobody from its lines, and is tried again', async (t) => {
  await using env = await openTestHistory();
  const log = silentLogger();
  // A name that is no file's, as if there were no room for one.
  const inTheWay = join(env.dir, 'volume.json');
  await mkdir(join(inTheWay, 'x'), { recursive: true });
  const born = await bornMsOf(env.dir, { now: 1_000, log });
  assert.deepEqual(born, { bornMs: 1_000, isKept: false });
  const stop = new AbortController();
  t.after(() => stop.abort());
  const keeping = keepBornMs(env.dir, born.bornMs, { signal: stop.signal, log, everyMs: 10 });
  await rm(inTheWay, { recursive: true });
  await keeping;
  assert.deepEqual(await bornMsOf(env.dir, { now: 2_000, log }), { bornMs: 1_000, isKept: true });
});
