import assert from 'node:assert/strict';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, symlinkSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { keepLogSmall, rotate } from './own-log.ts';

let directory = '';
let file = '';
let fd = -1;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'flynn-own-log-'));
  file = join(directory, 'agent.log');
  fd = openSync(file, 'a');
});

afterEach(() => {
  closeSync(fd);
  rmSync(directory, { recursive: true });
});

test('a log that is too long goes aside, and what comes next stands at its start', () => {
  writeSync(fd, 'first\n');
  rotate(file, fd, 6);
  assert.equal(readFileSync(file, 'utf8'), 'first\n', 'not longer than it may be');
  writeSync(fd, 'second\n');
  rotate(file, fd, 6);
  writeSync(fd, 'third\n');
  assert.equal(readFileSync(`${file}.1`, 'utf8'), 'first\nsecond\n');
  assert.equal(readFileSync(file, 'utf8'), 'third\n');
  writeSync(fd, 'fourth\n');
  rotate(file, fd, 6);
  assert.equal(readFileSync(`${file}.1`, 'utf8'), 'third\nfourth\n', 'in place of what was there');
});

test('it is looked at from the start on, until the agent ends', async () => {
  writeSync(fd, 'x'.repeat(11 * 2 ** 20));
  const stop = new AbortController();
  symlinkSync(directory, `${directory}-link`);
  const kept = keepLogSmall(join(`${directory}-link`, 'agent.log'), { fd, log: silentLogger(), signal: stop.signal });
  await waitFor(() => readFileSync(file).length === 0, { what: 'an empty log', deadlineMs: 60_000 });
  stop.abort();
  await kept;
  rmSync(`${directory}-link`);
});

test('what is not its log is left alone', async () => {
  writeSync(fd, 'x'.repeat(11 * 2 ** 20));
  await keepLogSmall(join(directory, 'other.log'), { fd, log: silentLogger(), signal: new AbortController().signal });
  assert.equal(readFileSync(file).length, 11 * 2 ** 20);
});
