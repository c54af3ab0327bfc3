import assert from 'node:assert/strict';
import { test } from 'node:test';
import { exitCodeText } from './exit-codes.ts';

test('exit codes that shells and the kernel give say what they mean', () => {
  const texts = [0, 1, 126, 127, 128, 137, 143, 255].map(exitCodeText);
  assert.deepEqual(texts, [
    'exit code 0',
    'exit code 1',
    'exit code 126 (not executable)',
    'exit code 127 (command not found)',
    'exit code 128',
    'exit code 137 (SIGKILL)',
    'exit code 143 (SIGTERM)',
    'exit code 255',
  ]);
});
