import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { fewestConnections } from './choice.ts';

const of = (inFlight: number, awayUntilMs = 0) => ({
  inFlight,
  isUsable: (nowMs: number) => awayUntilMs <= nowMs,
});

test('the one with the fewest connections is taken, among several by chance', () => {
  const [busy, one, two] = [of(5), of(1), of(1)];
  const pick = (share: number) =>
    fewestConnections([busy, one, two], { nowMs: 0, random: () => share, tried: new Set() });
  assert.equal(pick(0), one);
  assert.equal(pick(0.9), two);
});

test('one that cannot be reached is taken only when there are no others, one that was tried never', () => {
  const [away, busy] = [of(0, 10), of(9)];
  const options = { nowMs: 0, random: () => 0, tried: new Set<ReturnType<typeof of>>() };
  assert.equal(fewestConnections([away, busy], options), busy);
  assert.equal(fewestConnections([away, busy], { ...options, tried: new Set([busy]) }), away);
  assert.equal(fewestConnections([away, busy], { ...options, tried: new Set([busy, away]) }), undefined);
  assert.equal(fewestConnections([away, busy], { ...options, nowMs: 10 }), away);
});

test('whoever is chosen, nobody who could be reached has fewer', () => {
  const backends = fc.array(fc.tuple(fc.nat(5), fc.boolean()), { minLength: 1, maxLength: 8 });
  fc.assert(
    fc.property(backends, fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }), (list, share) => {
      const all = list.map(([inFlight, isAway]) => of(inFlight, isAway ? 10 : 0));
      const chosen = fewestConnections(all, { nowMs: 0, random: () => share, tried: new Set() });
      const reachable = all.filter((backend) => backend.isUsable(0));
      assert.ok(chosen !== undefined);
      if (reachable.length > 0) assert.ok(reachable.includes(chosen));
      assert.ok((reachable.length > 0 ? reachable : all).every(({ inFlight }) => inFlight >= chosen.inFlight));
    }),
  );
});
