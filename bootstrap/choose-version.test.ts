import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

const script = join(import.meta.dirname, 'choose-version');

/** Starts the agent `times` times without it ever coming up; answers what `current` is after each. */
function startsOf(times: number, proven: readonly string[]): string[] {
  const state = mkdtempSync(join(tmpdir(), 'flynn-versions-'));
  try {
    for (const version of ['old', 'new']) mkdirSync(join(state, 'agent', version), { recursive: true });
    for (const version of proven) writeFileSync(join(state, 'agent', version, 'proven'), '');
    symlinkSync('old', join(state, 'agent', 'previous'));
    symlinkSync('new', join(state, 'agent', 'current'));
    return Array.from({ length: times }, () => {
      execFileSync('sh', [script, state], { stdio: 'pipe' });
      return readlinkSync(join(state, 'agent', 'current'));
    });
  } finally {
    rmSync(state, { recursive: true });
  }
}

test('a version that never came up in three starts gives way to the one before', () => {
  assert.deepEqual(startsOf(5, ['old']), ['new', 'new', 'new', 'old', 'old']);
});

test('one that came up once is kept, however often it ends', () => {
  assert.deepEqual(startsOf(5, ['old', 'new']), ['new', 'new', 'new', 'new', 'new']);
});

test('nothing is given up for a version that never came up either', () => {
  assert.deepEqual(startsOf(5, []), ['new', 'new', 'new', 'new', 'new']);
});
