import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { hostAllocatorEnv } from './allocator.ts';

test('a program of this machine starts with the memory it is told to have, and says nothing of it', async () => {
  const env = hostAllocatorEnv();
  const print = "console.log(require('node:fs').readFileSync('/proc/self/maps', 'utf8').includes('jemalloc'))";
  const { stdout, stderr } = await promisify(execFile)(process.execPath, ['-e', print], { env });
  assert.deepEqual([stdout.trim(), stderr], [String('LD_PRELOAD' in env), '']);
});
