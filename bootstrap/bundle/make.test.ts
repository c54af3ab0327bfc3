import assert from 'node:assert/strict';
import { mkdir, mkdtempDisposable, readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import { makeScratch } from './make.ts';

test('what a bundle that was broken off had written goes with the next one, and of one that is being made stays', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-make-'));
  const others = ['.making-999999999-abc', `.making-${process.ppid}-abc`, 'install'];
  for (const name of others) await mkdir(join(folder.path, name));
  const own = basename(await makeScratch(folder.path));
  assert.deepEqual((await readdir(folder.path)).sort(), [...others.slice(1), own].sort());
});
