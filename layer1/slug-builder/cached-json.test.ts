import assert from 'node:assert/strict';
import { mkdtempDisposable, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { z } from 'zod';
import { readCachedJson } from './cached-json.ts';

test('what the cache remembers is read, and taken for missing where it is damaged', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-cached-'));
  const file = join(folder.path, 'list.json');
  const read = () => readCachedJson(file, z.array(z.int()));
  assert.equal(await read(), undefined);
  await writeFile(file, '[1, 2]');
  assert.deepEqual(await read(), [1, 2]);
  for (const damaged of ['[1, 2', '{"a": 1}', '']) {
    await writeFile(file, damaged);
    assert.equal(await read(), undefined, damaged);
  }
});
