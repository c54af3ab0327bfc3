import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempDisposable, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { groupsOf, writeGroups } from './groups.ts';

test('a group has files of one package, each file is in one, and groups of a package are alike in size', () => {
  const many = Array.from({ length: 50 }, (_, at) => `layer1/router/${at}.test.ts`);
  const groups = groupsOf(['layer1/blobs/a.test.ts', ...many]);
  assert.deepEqual(groups[0], ['layer1/blobs/a.test.ts']);
  assert.deepEqual(groups.slice(1).flat(), many);
  assert.deepEqual(
    groups.map(({ length }) => length),
    [1, 17, 17, 16],
  );
});

test('what fails in one file of a group fails its run, and the others are run all the same', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-groups-'));
  const files = ['good', 'bad', 'last'].map((name) => join(folder.path, `${name}.mjs`));
  for (const file of files) {
    const text = `import { test } from 'node:test'; test(${JSON.stringify(file)}, () => { if (/bad/.test(${JSON.stringify(file)})) throw new Error('no'); });`;
    await writeFile(file, text);
  }
  const [program = ''] = writeGroups([files], folder.path);
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const args = ['--test-reporter=tap', program];
  const failed: unknown = await promisify(execFile)(process.execPath, args, { env }).catch((error: unknown) => error);
  assert.ok(failed instanceof Error && 'stdout' in failed && 'code' in failed);
  assert.equal(failed.code, 1);
  assert.match(String(failed.stdout), /# pass 2\n# fail 1\n/);
});
