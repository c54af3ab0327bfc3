import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { rolloutSchema, strategies } from '@flynn/controller/deployments/rollout-settings';
import type { Rollout } from '@flynn/controller/deployments/rollout-settings';
import { nextCounts } from '@flynn/controller/deployments/strategies';
import * as fc from 'fast-check';
import { seeded } from './testing.ts';
import { Weights } from './weights.ts';

type Fake = { name: string; inFlight: number; release: string | undefined; isUsable(): boolean };
type Shares = Readonly<Record<string, number>>;

/** So many of each release. */
function backendsOf(counts: Shares): Fake[] {
  return Object.entries(counts).flatMap(([release, count]) =>
    Array.from({ length: count }, (_, index) => ({
      name: `${release}-${index}`,
      inFlight: 0,
      release,
      isUsable: () => true,
    })),
  );
}

function weightsOf(shares: Shares, leaving?: string): Weights<Fake> {
  const weights = Object.entries(shares).map(([release, weight]) => ({ release, weight }));
  return new Weights<Fake>(weights, leaving);
}

const points = 2_000;

/** What part of all requests each release gets, to the thousandth. */
function measured(weights: Weights<Fake>, counts: Shares): Record<string, number> {
  const backends = backendsOf(counts);
  const random = seeded(2);
  const found: Record<string, number> = {};
  for (let i = 0; i < points; i += 1) {
    const { release = 'none' } = weights.choose(backends, (i + 0.5) / points, 0, random) ?? {};
    found[release] = (found[release] ?? 0) + 1 / points;
  }
  return found;
}

function assertShares(found: Shares, expected: Shares, what: string): void {
  for (const release of new Set([...Object.keys(found), ...Object.keys(expected)])) {
    const [is, should] = [found[release] ?? 0, expected[release] ?? 0];
    assert.ok(Math.abs(is - should) < 0.002, `${what}: ${release} gets ${is}, not ${should}`);
  }
}

describe('shares of the requests', () => {
  const table: { what: string; weights: Shares; leaving?: string; backends: Shares; shares: Shares }[] = [
    {
      what: 'are as the weights, of those that are there, and 0 is nothing',
      weights: { old: 90, gone: 50, new: 10, other: 0 },
      backends: { old: 2, new: 1, other: 1 },
      shares: { old: 0.9, new: 0.1 },
    },
    {
      what: 'of a canary are what it was given, however many jobs it has',
      weights: { v7: 5, v8: 95 },
      backends: { v7: 8, v8: 1 },
      shares: { v7: 0.05, v8: 0.95 },
    },
    {
      what: 'of a release that no weight names are as if there were none',
      weights: { v8: 100 },
      backends: { v8: 6, v9: 2 },
      shares: { v8: 0.75, v9: 0.25 },
    },
    {
      what: 'of those that are named are what the unnamed one leaves',
      weights: { v7: 3, v8: 1 },
      backends: { v7: 3, v8: 1, v9: 4 },
      shares: { v7: 0.375, v8: 0.125, v9: 0.5 },
    },
    {
      what: 'go by backends where nobody named is there',
      weights: { v5: 100 },
      backends: { v9: 2 },
      shares: { v9: 1 },
    },
    { what: 'are whole where only 0 is there', weights: { v8: 0 }, backends: { v8: 2 }, shares: { v8: 1 } },
    {
      what: 'of what leaves are bounded by the backends it has left',
      weights: { v7: 95, v8: 5 },
      leaving: 'v7',
      backends: { v7: 1, v8: 7 },
      shares: { v7: 0.125, v8: 0.875 },
    },
    {
      what: 'of what leaves are no more than its weight gives it',
      weights: { v7: 0, v8: 100 },
      leaving: 'v7',
      backends: { v7: 7, v8: 1 },
      shares: { v8: 1 },
    },
    {
      what: 'that what leaves gives up go to one that was kept dark until then',
      weights: { v7: 100, v8: 0 },
      leaving: 'v7',
      backends: { v7: 3, v8: 1 },
      shares: { v7: 0.75, v8: 0.25 },
    },
    {
      what: 'that what leaves gives up are shared by the others',
      weights: { v7: 80, v8: 15, v6: 5 },
      leaving: 'v7',
      backends: { v7: 1, v8: 2, v6: 2 },
      shares: { v7: 0.2, v8: 0.6, v6: 0.2 },
    },
    {
      what: 'are whole while there is only what leaves',
      weights: { v7: 95, v8: 5 },
      leaving: 'v7',
      backends: { v7: 2 },
      shares: { v7: 1 },
    },
  ];
  for (const { what, weights, leaving, backends, shares } of table) {
    test(what, () => assertShares(measured(weightsOf(weights, leaving), backends), shares, what));
  }

  test('another release answers only when none of the right one is left to try', () => {
    const weights = weightsOf({ old: 90, gone: 50, new: 10, other: 0 });
    const backends = backendsOf({ old: 2, new: 1, other: 1 });
    const news = backends.filter(({ release }) => release === 'new');
    assert.equal(weights.choose(backends, 0.99, 0, seeded(3), news)?.release, 'old');
    const named = backends.filter(({ release }) => release !== 'other');
    assert.equal(weights.choose(backends, 0.5, 0, seeded(3), named)?.release, 'other');
    assert.equal(weights.choose(backends, 0.5, 0, seeded(3), backends), undefined);
    assert.equal(weights.choose([], 0.5, 0, seeded(3)), undefined);
  });

  test('as the last share grows, clients only move to it', () => {
    const point = fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true });
    fc.assert(
      fc.property(point, fc.nat(100), fc.nat(100), (point, a, b) => {
        const [before, after] = a < b ? [a, b] : [b, a];
        const releaseAt = (share: number) =>
          weightsOf({ old: 100 - share, new: share }).choose(
            backendsOf({ old: 2, new: 1, other: 1 }),
            point,
            0,
            seeded(4),
          )?.release;
        if (releaseAt(before) === 'new') assert.equal(releaseAt(after), 'new');
      }),
    );
  });
});

/** Backends of `v7` and `v8` at every moment of a rollout of so many jobs, each that comes and goes one by one. */
function* rollout(plan: Rollout, count: number): Generator<{ v7: number; v8: number; isHeld: boolean }> {
  let [newWanted, oldWanted] = [0, count];
  let [v7, v8] = [count, 0];
  let isPromoted = false;
  for (let steps = 0; steps < 10 * count; steps += 1) {
    const type = { type: 'web', target: count, original: count, newWanted, oldWanted, newUp: v8, oldPresent: v7 };
    const next = nextCounts([{ ...type, isInPlace: false, isSwitched: true }], plan, isPromoted);
    if (next === 'promotion') {
      yield { v7, v8, isHeld: true };
      isPromoted = true;
      continue;
    }
    assert.notEqual(next, 'wait');
    if (typeof next !== 'string')
      ({ newWanted, oldWanted } = { newWanted: next.newCounts['web'] ?? 0, oldWanted: next.oldCounts['web'] ?? 0 });
    else oldWanted = 0;
    while (v7 > oldWanted || v8 < newWanted) {
      if (v7 > oldWanted) v7 -= 1;
      if (v8 < newWanted && steps % 2 === 0) v8 += 1;
      else if (v7 <= oldWanted) v8 = Math.min(newWanted, v8 + 1);
      if (v7 + v8 > 0) yield { v7, v8, isHeld: plan.strategy === 'canary' && !isPromoted };
    }
    if (next === 'done') return;
  }
  assert.fail('the rollout does not end');
}

describe('while a deployment is under way', () => {
  const given: Shares[] = [
    { v7: 95, v8: 5 },
    { v7: 50, v8: 50 },
    { v7: 5, v8: 95 },
    { v7: 100, v8: 0 },
    { v7: 0, v8: 100 },
    { v8: 5, v7: 95 },
    { v7: 100 },
    { v6: 100 },
  ];
  for (const strategy of strategies) {
    test(`${strategy}: no backend gets more than its part, nor than people gave its release, and nobody goes back`, () => {
      const plan = rolloutSchema.parse({ strategy });
      for (const shares of given) {
        let before = 0;
        for (const { v7, v8, isHeld } of rollout(plan, 8)) {
          const found = measured(weightsOf(shares, isHeld ? undefined : 'v7'), { v7, v8 });
          const what = `${JSON.stringify(shares)} with ${v7} and ${v8}`;
          const fair = 1 / (v7 + v8);
          if (isHeld) continue;
          const ofOld = v7 === 0 ? 0 : (found['v7'] ?? 0) / v7;
          assert.ok(ofOld < fair + 0.002, `${what}: an old one gets ${ofOld} of all, where ${fair} is fair`);
          const sum = (shares['v7'] ?? 0) + (shares['v8'] ?? 0);
          const wanted = shares['v8'] === undefined ? 0 : shares['v8'] / sum;
          const most = v8 === 0 ? 0 : Math.max(fair, wanted / v8);
          const ofNew = v8 === 0 ? 0 : (found['v8'] ?? 0) / v8;
          assert.ok(ofNew < most + 0.002, `${what}: a new one gets ${ofNew} of all, where ${most} is the most`);
          // Where the old ones go first they leave a smaller whole.
          if (v8 > 0) assert.ok((found['v8'] ?? 0) > before - 0.002, `${what}: the new release had ${before}`);
          before = found['v8'] ?? 0;
        }
        assert.ok(before > 0.998, 'in the end the new release has all');
      }
    });
  }
});
