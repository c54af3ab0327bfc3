import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runShell } from './shell-command.ts';

const options = () => ({ timeoutMs: 60_000, signal: new AbortController().signal, env: process.env });

test('what a command said last is told, however much it said before', async () => {
  for (let round = 0; round < 10; round += 1) {
    const failing = runShell('head -c 200000 /dev/zero | tr "\\0" x; echo the last words; exit 3', options());
    await assert.rejects(failing, /ended with 3:[^]*the last words/);
  }
});

test('what a command leaves running holds nobody up', { timeout: 60_000 }, async () => {
  await assert.rejects(runShell('sleep 300 & echo it is $!; exit 1', options()), (error) => {
    assert.ok(error instanceof Error);
    const [, pid = ''] = /it is (\d+)/.exec(error.message) ?? [];
    process.kill(Number(pid));
    return true;
  });
});
