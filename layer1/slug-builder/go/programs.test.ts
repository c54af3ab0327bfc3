import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bench } from '../compile-fixture.ts';
import { programsOf } from './programs.ts';

const results: [says: string, script: string, expected: RegExp | string[]][] = [
  ['its programs', 'echo example.com/a; echo; echo example.com/a/cmd/b', ['example.com/a', 'example.com/a/cmd/b']],
  [
    'what to check where a module cannot be fetched',
    'echo "x: 403 Forbidden" >&2; exit 1',
    /^go list \.\/\.\.\. failed[^]*403[^]*GOPROXY/,
  ],
  ['what is missing where nothing is a program', 'echo', /no package of this module is a program/],
];
for (const [says, script, expected] of results) {
  test(`a module tells ${says}`, async () => {
    await using b = await bench({});
    const found = programsOf(b.context(), await b.withProgram('go', script));
    if (expected instanceof RegExp) await assert.rejects(found, { code: 'invalid', message: expected });
    else assert.deepEqual(await found, expected);
  });
}
