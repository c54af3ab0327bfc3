import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { Metrics } from '@flynn/kit/metrics';
import { openFilesystem } from './filesystem.ts';
import { countedStorage } from './metrics.ts';
import { textOf } from './testing.ts';

test('what goes in and out is counted, and what is asked for and not there', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-blobs-'));
  const metrics = new Metrics();
  const storage = countedStorage(await openFilesystem(dir, { nowMs: 0 }), metrics, dir);
  async function* bytes() {
    yield Buffer.from('hello');
  }
  const { digest } = await storage.put(bytes(), {});
  const { body } = await storage.open(digest);
  body.destroy();
  const part = await storage.open(digest, { from: 3 });
  assert.equal(await textOf(part.body), 'lo');
  await storage.remove(digest);
  await assert.rejects(storage.open(digest), (error) => hasCode(error, 'not_found'));
  const text = await metrics.text();
  await rm(dir, { recursive: true });
  for (const line of [
    'put_total 1',
    'put_bytes_total 5',
    'read_total 2',
    'read_bytes_total 7',
    'removed_total 1',
    'missing_total 1',
  ]) {
    assert.ok(text.includes(`\nflynn_blobs_${line}\n`), line);
  }
  assert.match(text, /^flynn_blobs_disk_free_bytes \d+$/m);
});
