import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { findProcesses } from './processes.ts';
import { waitFor } from './retry.ts';

test('a process of the same words in a container on this machine is none of its own', { timeout: 60_000 }, async () => {
  const mark = `flynn-test-${process.pid}`;
  // It starts no program: until that begins it is another process of the same words.
  const script = 'echo there; read -r line';
  const start = (ahead: readonly string[]) => {
    const [program, ...args] = [...ahead, 'sh', '-c', script, mark];
    const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'ignore'] });
    return { child, there: once(child.stdout, 'data') };
  };
  const isIt = ([program, ...words]: readonly string[]): boolean => program === 'sh' && words.at(-1) === mark;
  const inside = start(['unshare', '--pid', '--fork', '--kill-child=SIGKILL']);
  const outside = start([]);
  try {
    await Promise.all([inside.there, outside.there]);
    assert.deepEqual(await findProcesses(isIt), [outside.child.pid]);
  } finally {
    for (const { child } of [inside, outside]) child.kill('SIGKILL');
  }
  await waitFor(async () => (await findProcesses(isIt)).length === 0, { what: 'their end', deadlineMs: 10_000 });
});
