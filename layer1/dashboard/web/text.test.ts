import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { bytesText, countText, durationText, figureText, relativeText, shortText } from './text.ts';

describe('texts', () => {
  it('of durations have one unit, rounded down', () => {
    const shown = [0, 59_999, 60_000, 3_599_999, 3_600_000, 47 * 3_600_000, 49 * 3_600_000].map(durationText);
    assert.deepEqual(shown, ['0 s', '59 s', '1 min', '59 min', '1 h', '47 h', '2 d']);
  });

  it('of moments tell which side of now they are on', () => {
    const now = Date.parse('2030-01-31T12:00:00Z');
    assert.equal(relativeText('2030-01-31T11:00:00Z', now), '1 h ago');
    assert.equal(relativeText('2030-02-01T12:00:00Z', now), 'in 24 h');
    assert.equal(relativeText('2030-01-31T12:00:03Z', now), 'now');
  });

  it('of sizes and counts are short', () => {
    assert.deepEqual([0, 1_023, 1_536, 512 * 1024 ** 2, 3 * 1024 ** 5].map(bytesText), [
      '0 B',
      '1023 B',
      '1.5 KB',
      '512 MB',
      '3072 TB',
    ]);
    assert.deepEqual([9_999, 12_340, 1_200_000].map(figureText), ['9999', '12.3 k', '1.2 M']);
    assert.deepEqual([countText(1, 'job'), countText(0, 'job')], ['1 job', '0 jobs']);
    assert.equal(shortText('sha256:0123456789abcdef'), '0123456789');
  });
});
