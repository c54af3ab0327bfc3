import assert from 'node:assert/strict';
import { test } from 'node:test';
import { neverSent } from './never-sent.ts';

const failed = (code: string, syscall?: string) =>
  Object.assign(new Error(code), { code, ...(syscall === undefined ? {} : { syscall }) });
const aggregate = (...errors: Error[]) => Object.assign(new AggregateError(errors), { code: 'ETIMEDOUT' });

const cases: [string, unknown, boolean][] = [
  ['nobody listens there', failed('ECONNREFUSED', 'connect'), true],
  ['its host does not answer', failed('ETIMEDOUT', 'connect'), true],
  ['no way leads there', failed('EHOSTUNREACH', 'connect'), true],
  ['the patience of fetch ended first', failed('UND_ERR_CONNECT_TIMEOUT'), true],
  ['none of its addresses answers', aggregate(failed('ETIMEDOUT', 'connect'), failed('ENETUNREACH', 'connect')), true],
  ['its host was gone while it answered', failed('ETIMEDOUT', 'read'), false],
  ['the way there was gone while it was asked', failed('EHOSTUNREACH', 'write'), false],
  ['the connection was reset', failed('ECONNRESET', 'connect'), false],
  ['one of several had begun', aggregate(failed('ETIMEDOUT', 'connect'), failed('ETIMEDOUT', 'read')), false],
  ['it is no error of the system', new Error('no'), false],
  ['it is no error', undefined, false],
];

for (const [name, error, expected] of cases) {
  test(`${name}: ${expected ? 'another may be asked' : 'it may have been carried out'}`, () =>
    assert.equal(neverSent(error), expected));
}
