import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { Health, mayEjectOneMore, readmitBeyondHalf } from './health.ts';

const broke = { isProbe: false, wasDial: false, mayEject: true };
const undialled = { ...broke, wasDial: true };

/** Ejected at this time. */
function ejectedAt(nowMs: number): Health {
  const health = new Health();
  for (let i = 0; i < 3; i += 1) health.failed(nowMs, broke);
  assert.ok(health.isEjected);
  return health;
}

describe('the health of a backend', () => {
  test('one that could not be dialled is avoided for five seconds, or until it answers', () => {
    const health = new Health();
    assert.equal(health.failed(1_000, undialled), false);
    assert.equal(health.isUsable(5_999), false);
    assert.equal(health.isUsable(6_000), true);
    health.failed(7_000, undialled);
    health.answered(7_500, false);
    assert.equal(health.isUsable(7_500), true);
  });

  test('the third failure in a row ejects it; an answer between, or half a minute, begins the row anew', () => {
    const health = new Health();
    for (const nowMs of [0, 1, 2]) {
      assert.equal(health.failed(nowMs, broke), nowMs === 2);
    }
    const answers = new Health();
    for (let minute = 0; minute < 10; minute += 1) {
      const nowMs = minute * 60_000;
      for (const again of [true, false]) {
        answers.failed(nowMs, broke);
        answers.failed(nowMs, broke);
        if (again) answers.answered(nowMs, false);
      }
    }
    assert.equal(answers.isEjected, false);
  });

  test('is probed by one request at a time, and its time doubles up to five minutes', () => {
    const health = ejectedAt(0);
    let nowMs = 0;
    for (const seconds of [5, 10, 20, 40, 80, 160, 300, 300]) {
      assert.equal(health.isUsable(nowMs + seconds * 1_000 - 1), false, `${seconds}`);
      nowMs += seconds * 1_000;
      assert.equal(health.isUsable(nowMs), true);
      assert.equal(health.begin(nowMs), true);
      assert.equal(health.isUsable(nowMs), false, 'one at a time');
      assert.equal(health.begin(nowMs), false);
      assert.equal(health.failed(nowMs, { ...broke, isProbe: true }), true);
      health.endProbe();
    }
    nowMs += 300_000;
    health.begin(nowMs);
    health.answered(nowMs, true);
    health.endProbe();
    assert.equal(health.isEjected, false);
    assert.equal(health.isUsable(nowMs), true);
  });

  test('requests from before say nothing about one that is ejected', () => {
    const health = ejectedAt(0);
    health.answered(1, false);
    assert.equal(health.isEjected, true);
    health.failed(2, broke);
    assert.equal(health.isUsable(5_000), true);
  });

  test('a probe whose client leaves makes room for another', () => {
    const health = ejectedAt(0);
    health.begin(5_000);
    health.endProbe();
    assert.equal(health.begin(5_000), true);
  });

  test('after five well minutes an ejection is the first again', () => {
    for (const [laterMs, usableAfterMs] of [
      [1_000, 10_000],
      [301_000, 5_000],
    ] as const) {
      const health = ejectedAt(0);
      health.begin(5_000);
      health.answered(5_000, true);
      health.endProbe();
      const nowMs = 5_000 + laterMs;
      for (let i = 0; i < 3; i += 1) health.failed(nowMs, broke);
      assert.equal(health.isUsable(nowMs + usableAfterMs - 1), false);
      assert.equal(health.isUsable(nowMs + usableAfterMs), true);
    }
  });

  test('whatever fails and whoever leaves, at most half are ejected', () => {
    const events = fc.array(fc.record({ who: fc.nat(), does: fc.constantFrom('fail', 'answer', 'leave', 'join') }), {
      maxLength: 60,
    });
    fc.assert(
      fc.property(events, (events) => {
        let backends = Array.from({ length: 5 }, () => ({ health: new Health() }));
        for (const [nowMs, { who, does }] of events.entries()) {
          const backend = backends[who % Math.max(1, backends.length)];
          if (does === 'join') backends.push({ health: new Health() });
          else if (does === 'leave') backends = backends.filter((each) => each !== backend);
          else if (does === 'answer') backend?.health.answered(nowMs, false);
          else backend?.health.failed(nowMs, { ...broke, mayEject: mayEjectOneMore(backends) });
          readmitBeyondHalf(backends, nowMs);
          assert.ok(backends.filter(({ health }) => health.isEjected).length * 2 <= backends.length);
        }
      }),
    );
  });
});
