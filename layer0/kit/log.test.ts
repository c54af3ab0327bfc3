import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { FlynnError } from './errors.ts';
import { createLogger, silentLogger } from './log.ts';

function logged(write: (log: ReturnType<typeof createLogger>) => void, level = 'info'): string {
  const destination = new PassThrough();
  write(createLogger('tester', { level, destination }));
  return String(destination.read() ?? '');
}

test('a line is JSON with name, level, time and fields', () => {
  const line: unknown = JSON.parse(logged((log) => log.info({ job: 'j1' }, 'started')));
  assert.ok(typeof line === 'object' && line !== null && 'time' in line);
  assert.deepEqual({ ...line, time: '' }, { name: 'tester', level: 'info', time: '', job: 'j1', msg: 'started' });
});

test('keys, secrets and authorization headers never reach the log', () => {
  const text = logged((log) =>
    log.child({ key: 'hidden1' }).info({ secret: 'hidden2', headers: { authorization: 'hidden3' } }, 'x'),
  );
  assert.doesNotMatch(text, /hidden/);
  assert.match(text, /\*\*\*/);
});

test('an error is logged with its message, code and cause', () => {
  const err = new FlynnError('conflict', 'taken', { cause: new Error('because') });
  assert.match(
    logged((log) => log.error({ err }, 'x')),
    /taken.*because/,
  );
});

test('what is below the level is not written, and the silent logger writes nothing', () => {
  assert.equal(
    logged((log) => log.debug('x')),
    '',
  );
  assert.equal(silentLogger().isLevelEnabled('fatal'), false);
});
