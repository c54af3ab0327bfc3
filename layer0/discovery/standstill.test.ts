import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Standstill } from './standstill.ts';

test('a store that answers no renewal for long stands still, and has just done so for a while after', () => {
  let nowMs = 0;
  let renewedMs: number | undefined;
  const standstill = new Standstill({ renewedMs: () => renewedMs, silentMs: 5_000, lastsMs: 3_000, now: () => nowMs });
  const at = (ms: number): boolean => {
    nowMs = ms;
    return standstill.isRecent;
  };
  // Nobody asks it for anything.
  assert.equal(at(60_000), false);
  renewedMs = 60_000;
  assert.equal(at(64_999), false);
  assert.equal(at(65_000), true);
  assert.equal(at(70_000), true);
  renewedMs = 70_500;
  assert.equal(at(71_000), true);
  renewedMs = 72_900;
  assert.equal(at(73_000), false);
});
