import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { type Standing, checkKnown, features } from './features.ts';

const before = { version: '0.0.9', features: [] };
const plain: Standing = { encryption: 'off', behindNat: [] };

test('a version that knows no WireGuard is gone back to where nothing stands on that', () => {
  assert.doesNotThrow(() => checkKnown(before, plain));
  for (const encryption of ['off', 'ready', 'sent', 'on', 'unreadable'] as const) {
    assert.doesNotThrow(() => checkKnown({ version: '0.2.0', features }, { encryption, behindNat: ['h4'] }));
  }
});

const refused: [string, Standing, RegExp][] = [
  [
    'of an encrypted cluster',
    { ...plain, encryption: 'on' },
    /0\.0\.9 [^]*encrypted.*flynn-host network decrypt\nNothing/,
  ],
  ['of one that is half-way', { ...plain, encryption: 'ready' }, /flynn-host network decrypt/],
  ['where nobody can tell', { ...plain, encryption: 'unreadable' }, /or may be: flynn-host network decrypt/],
  ['with a host behind NAT', { ...plain, behindNat: ['h4'] }, /^[^]*:\n  h4 is reached[^]*take it out first/],
  ['with two of them', { ...plain, behindNat: ['h4', 'h5'] }, /h4, h5 are reached[^]*take each of them out/],
];
for (const [what, standing, message] of refused) {
  test(`and not ${what}: it is told what to type first`, () => {
    assert.throws(
      () => checkKnown(before, standing),
      (error) => hasCode(error, 'conflict') && message.test(error.message) && /Nothing was changed/.test(error.message),
    );
  });
}
