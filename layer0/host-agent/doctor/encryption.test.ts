import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encryptionFindings } from './encryption.ts';

const since = '2026-11-26T10:00:00.000Z';
const after = (seconds: number): number => Date.parse(since) + seconds * 1_000;

test('encryption that is on, or off, is well; so is a change while it is being made', () => {
  for (const word of ['on', 'off'] as const) assert.deepEqual(encryptionFindings({ word }, after(0)), []);
  for (const word of ['ready', 'sent'] as const) assert.deepEqual(encryptionFindings({ word, since }, after(89)), []);
});

test('a change that was left half-way is told with what it means and with what ends it', () => {
  for (const [word, why] of [
    ['ready', /goes in clear/],
    ['sent', /comes in clear.*is taken/],
  ] as const) {
    const [finding] = encryptionFindings({ word, since }, after(180));
    assert.equal(finding?.since, since);
    assert.match(finding?.what ?? '', new RegExp(`half-way, at "${word}"`));
    assert.match(finding?.why ?? '', why);
    assert.match(finding?.remedy ?? '', /^flynn-host network encrypt goes on.*flynn-host network decrypt goes back$/);
    // An agent of before took the step.
    const [undated] = encryptionFindings({ word }, after(0));
    assert.match(undated?.remedy ?? '', /^if nobody is at it now: flynn-host network encrypt/);
  }
});

test('a word that cannot be read is told by its key, and with what writes it anew', () => {
  const [finding] = encryptionFindings({ word: 'unreadable' }, after(0));
  assert.match(finding?.what ?? '', /cannot be read .*\/flynn\/network\/encryption/);
  assert.match(finding?.remedy ?? '', /flynn-host network encrypt .*flynn-host network decrypt/);
});
