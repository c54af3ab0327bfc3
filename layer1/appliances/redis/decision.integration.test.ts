/** By the Python that members run: who leads, that two never do, and what a member does where something does not answer. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { test } from 'node:test';

async function assertPasses(file: string): Promise<void> {
  const { FLYNN_TEST_REDIS_IMAGE: image = '' } = process.env;
  const program = ['--env', 'PYTHONPATH=/usr/lib/flynn/redis', '--entrypoint', 'python3', image, '-B', '-'];
  const child = spawn('docker', ['run', '--rm', '--interactive', '--label', 'flynn.test=1', ...program]);
  const [[code], said] = await Promise.all([
    once(child, 'close'),
    text(child.stderr),
    pipeline(createReadStream(join(import.meta.dirname, file)), child.stdin),
  ]);
  assert.equal(code, 0, said);
  assert.match(said, /Ran \d{2} tests/);
}

test('members decide by their rules, and whatever befalls their hosts two never take writes at the same time', () =>
  assertPasses('decision_test.py'));

test('a member whose Valkey or whose store does not answer takes no writes for longer than it may', () =>
  assertPasses('supervisor_test.py'));
