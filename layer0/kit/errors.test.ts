import assert from 'node:assert/strict';
import { test } from 'node:test';
import { z } from 'zod';
import {
  FlynnError,
  asFlynnError,
  codeOfHttpStatus,
  hasCode,
  hasErrno,
  httpStatusOf,
  isErrorCode,
  messageOf,
} from './errors.ts';

const codes = [
  'not_found',
  'conflict',
  'invalid',
  'denied',
  'unauthenticated',
  'unavailable',
  'exhausted',
  'timeout',
  'cancelled',
  'internal',
] as const;

function withCode(code: string): Error {
  return Object.assign(new Error(`it said ${code}`), { code });
}

test('every code survives the way over an HTTP status', () => {
  for (const code of codes) assert.equal(codeOfHttpStatus(httpStatusOf(code)), code);
});

test('a status of a stranger becomes the nearest code', () => {
  assert.equal(codeOfHttpStatus(413), 'invalid');
  assert.equal(codeOfHttpStatus(410), 'not_found');
  assert.equal(codeOfHttpStatus(502), 'unavailable');
  assert.equal(codeOfHttpStatus(501), 'internal');
});

test('foreign errors get the code of what happened and keep it as the cause', async () => {
  const timeout = AbortSignal.timeout(1);
  await new Promise((resolve) => timeout.addEventListener('abort', resolve));
  const wrapped = Object.assign(new Error('The operation was aborted', { cause: timeout.reason }), {
    name: 'AbortError',
  });
  const table: [unknown, string][] = [
    [AbortSignal.abort().reason, 'cancelled'],
    [timeout.reason, 'timeout'],
    [wrapped, 'timeout'],
    [withCode('ECONNREFUSED'), 'unavailable'],
    [withCode('ENOTFOUND'), 'unavailable'],
    [withCode('UND_ERR_SOCKET'), 'unavailable'],
    [withCode('ETIMEDOUT'), 'timeout'],
    [new AggregateError([withCode('ECONNREFUSED'), withCode('ETIMEDOUT')]), 'unavailable'],
    [new TypeError('fetch failed', { cause: withCode('ECONNRESET') }), 'unavailable'],
    [new TypeError('x is not a function'), 'internal'],
    [withCode('ENOENT'), 'internal'],
    ['thrown text', 'internal'],
  ];
  for (const [error, code] of table) {
    const translated = asFlynnError(error);
    assert.equal(translated.code, code, String(error));
    assert.equal(translated.cause, error);
  }
});

test('a failed schema becomes invalid and says where', () => {
  const { error } = z.object({ port: z.number() }).safeParse({ port: 'x' });
  const translated = asFlynnError(error);
  assert.equal(translated.code, 'invalid');
  assert.match(translated.message, /expected number, received string[\s\S]*port/);
});

test('a FlynnError passes through untouched and is recognised by any of several codes', () => {
  const error = new FlynnError('conflict', 'taken', { detail: { by: 'x' } });
  assert.equal(asFlynnError(error), error);
  assert.ok(hasCode(error, 'not_found', 'conflict'));
  assert.ok(!hasCode(error, 'not_found'));
  assert.ok(!hasCode(withCode('conflict'), 'conflict'));
});

test('a message is never empty, whatever was thrown', () => {
  assert.equal(messageOf(new Error('x')), 'x');
  assert.equal(messageOf(new RangeError()), 'RangeError');
  assert.equal(messageOf('text'), 'text');
  assert.equal(messageOf(new AggregateError([new Error('a'), new Error('b')])), 'a; b');
  assert.equal(messageOf(new TypeError('fetch failed', { cause: new Error('refused') })), 'refused');
  assert.match(messageOf(undefined), /not an error/);
});

test('names on the prototype chain are not codes', () => {
  assert.ok(isErrorCode('timeout'));
  assert.ok(!isErrorCode('toString'));
});

test('an error of the system is known by its name', () => {
  assert.ok(hasErrno(withCode('ENOENT'), 'ENOENT', 'EACCES'));
  assert.ok(!hasErrno(withCode('EPERM'), 'ENOENT', 'EACCES'));
  assert.ok(!hasErrno(new Error('x'), 'ENOENT'));
  assert.ok(!hasErrno('ENOENT', 'ENOENT'));
});
