import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { hostProcesses, ownPrograms } from './processes.ts';

test('a process that is about to be another program, under the words of the one that makes it, is not taken for that', async (t) => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-processes-'));
  // The inner one stands still where others are for a moment only: forked, and no other program yet.
  const script = 'mkfifo "$1/gate"; { read -r _ <"$1/gate"; } & echo "$!"; wait';
  const words = ['-c', script, 'supervise', `${folder.path}/`];
  const outer = spawn('sh', words, { stdio: ['ignore', 'pipe', 'inherit'], detached: true });
  t.after(() => outer.pid !== undefined && process.kill(-outer.pid, 'SIGKILL'));
  const [told]: unknown[] = await once(outer.stdout, 'data');
  const traits = { namespaceFile: join(folder.path, 'none'), directory: folder.path, controlGroup: '/flynn-none' };
  const all = hostProcesses(traits);
  assert.deepEqual(new Set(all.map(({ pid }) => pid)), new Set([outer.pid, Number(told)]));
  assert.deepEqual(
    ownPrograms(all).map(({ pid }) => pid),
    [outer.pid],
  );
});
