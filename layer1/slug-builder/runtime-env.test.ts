import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { profileOf, withRuntime } from './runtime-env.ts';

const env = { paths: { PATH: ['/a/bin', '/b/bin'], LIBS: ['/a/lib'] }, values: { MODE: 'fast', NAME: 'x y' } };

test('paths go in front of what is there; values are only defaults', () => {
  assert.deepEqual(withRuntime({ PATH: '/usr/bin', MODE: 'slow' }, env), {
    PATH: '/a/bin:/b/bin:/usr/bin',
    LIBS: '/a/lib',
    MODE: 'slow',
    NAME: 'x y',
  });
});

test('the profile script does the same when the slug runs', () => {
  const script = `${profileOf(env)}echo "$PATH|$LIBS|$MODE|$NAME"`;
  const said = (given: Record<string, string>): string =>
    execFileSync('/bin/bash', ['--norc', '-c', script], { env: given, encoding: 'utf8' }).trim();
  assert.equal(said({ PATH: '/usr/bin', MODE: '' }), '/a/bin:/b/bin:/usr/bin|/a/lib||x y');
  assert.equal(said({ PATH: '/usr/bin', LIBS: '/c' }), '/a/bin:/b/bin:/usr/bin|/a/lib:/c|fast|x y');
});
