import assert from 'node:assert/strict';
import { appendFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { whileFilling } from './tool-store.ts';

test('a store is worth storing once much of it is new, and kept then though the tool fails', async (t) => {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-store-'));
  t.after(() => rm(dir, { recursive: true, force: true }));
  let kept = 0;
  const context = { signal: t.signal, keepCache: () => void (kept += 1) };
  const fill = (name: string, bytes: number, failure?: Error): Promise<boolean> =>
    whileFilling(dir, context, async () => {
      await appendFile(join(dir, name), 'x'.repeat(bytes));
      if (failure !== undefined) throw failure;
    });
  assert.equal(await fill('nothing', 0), false);
  assert.equal(await fill('modules', 10_000), true);
  assert.equal(await fill('modules', 1), false);
  assert.equal(await fill('app', 100), false, 'less is compiled again than all of it stored');
  assert.equal(await fill('more', 1_000), true);
  const failure = new Error('does not compile');
  await assert.rejects(fill('little', 10, failure), failure);
  assert.equal(kept, 0);
  await assert.rejects(fill('much', 1_000, failure), failure);
  assert.equal(kept, 1);
});
