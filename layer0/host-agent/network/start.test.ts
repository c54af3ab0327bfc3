import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Shell } from '../shell.ts';
import { runnerOf } from './start.ts';

test('a script has its arguments in the shell that stays, too', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'flynn-runner-'));
  t.after(() => rm(folder, { recursive: true }));
  const run = runnerOf(new Shell());
  const file = join(folder, "it's here");
  await run({ program: 'sh', args: ['-c', 'echo "$1" > "$2"', 'sh', 'a $b', file] }, t.signal);
  assert.equal(await readFile(file, 'utf8'), 'a $b\n');
  assert.equal(await run({ program: 'sh', args: ['-c', 'echo "$#"'] }, t.signal), '0\n');
  assert.equal(await run({ program: 'echo', args: ['-c', 'x'] }, t.signal), '-c x\n');
});
