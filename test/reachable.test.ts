import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { chmod, mkdir, mkdtempDisposable, readFile, readdir, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { closedFolderOf, runInCopy } from './reachable.ts';

test('a folder that others may not enter is found wherever it lies on the way', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-reachable-'));
  const inner = join(folder.path, 'home/checkout');
  await mkdir(inner, { recursive: true });
  await chmod(folder.path, 0o755);
  assert.equal(closedFolderOf(inner), undefined);
  await chmod(inner, 0o700);
  assert.equal(closedFolderOf(inner), inner);
  await chmod(folder.path, 0o750);
  assert.equal(closedFolderOf(inner), folder.path);
});

test('what is run in a copy finds all there is, others get at it, and nothing of it stays', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-reachable-'));
  const checkout = join(folder.path, 'checkout');
  await chmod(folder.path, 0o755);
  await mkdir(join(checkout, 'test'), { recursive: true, mode: 0o700 });
  await chmod(join(checkout, 'test'), 0o700);
  await writeFile(join(checkout, 'said'), 'hello');
  const program = `import { readFileSync, statSync, writeFileSync } from 'node:fs';
writeFileSync(process.argv[2], JSON.stringify([process.cwd(), readFileSync('said', 'utf8'), (statSync('test').mode & 0o777).toString(8), process.env.NODE_COMPILE_CACHE ?? '']));
process.exit(7);
`;
  await writeFile(join(checkout, 'test/run.mjs'), program);
  const told = join(folder.path, 'told');
  const copies = join(folder.path, 'copies');
  await mkdir(copies);
  assert.equal(await runInCopy(checkout, 'test/run.mjs', { args: [told], copies }), 7);
  const [cwd, said, mode, cache]: string[] = JSON.parse(await readFile(told, 'utf8'));
  assert.ok(cwd?.startsWith(copies));
  assert.equal(said, 'hello');
  assert.equal(mode, '755');
  assert.equal(cache, '');
  assert.equal(existsSync(cwd ?? ''), false);
  assert.deepEqual(await readdir(copies), []);
  await chmod(copies, 0o700);
  await assert.rejects(runInCopy(checkout, 'test/run.mjs', { args: [told], copies }), /move the checkout/);
  assert.deepEqual(await readdir(copies), []);
});
