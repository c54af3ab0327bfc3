import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { absenceMs, keepPresence } from './presence.ts';

test('it is known since when there was no agent, unless there never was one or the clock is behind', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-presence-'));
  try {
    const startedMs = Date.now();
    assert.equal(await absenceMs(dir, startedMs), Infinity);
    const ending = new AbortController();
    const keeping = keepPresence(dir, ending.signal);
    const isThere = async () => (await absenceMs(dir, Date.now())) !== Infinity;
    await waitFor(isThere, { what: 'the presence', deadlineMs: 60_000, intervalMs: 5 });
    ending.abort();
    await keeping;
    assert.ok((await absenceMs(dir, Date.now() + 60_000)) >= 60_000);
    assert.equal(await absenceMs(dir, startedMs - 60_000), Infinity);
  } finally {
    await rm(dir, { recursive: true });
  }
});
