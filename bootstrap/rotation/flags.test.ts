import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { rotationFlags, rotationOf } from './flags.ts';

test('each option asks for one thing; two, or one beside something else, are refused by their names', () => {
  assert.deepEqual(
    rotationFlags.map((flag) => rotationOf({ [flag]: true }, { domain: false })),
    ['tokens', 'root key', 'sealing key', 'authority'],
  );
  assert.equal(rotationOf({}, { domain: true }), undefined);
  for (const given of [
    () => rotationOf({ 'rotate-authority': true, 'rotate-tokens': true }, { domain: false, 'from-backup': false }),
    () => rotationOf({ 'rotate-authority': true }, { domain: false, 'from-backup': true }),
    () => rotationOf({}, { domain: true, 'from-backup': true }),
  ]) {
    assert.throws(
      given,
      (error) =>
        hasCode(error, 'invalid') &&
        /--rotate-tokens, .*--rotate-authority, --domain and --from-backup are different things/.test(String(error)),
    );
  }
});
