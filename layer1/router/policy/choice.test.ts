import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { chooseBackend } from './choice.ts';
import { seeded } from './testing.ts';
import { Weights } from './weights.ts';

type Fake = { name: string; inFlight: number; usable: boolean; release: string | undefined; isUsable(): boolean };

function backend(name: string, changes: Partial<Fake> = {}): Fake {
  const fake: Fake = { name, inFlight: 0, usable: true, release: undefined, isUsable: () => fake.usable, ...changes };
  return fake;
}

const world = fc.record({
  backends: fc.array(fc.record({ inFlight: fc.nat(9), usable: fc.boolean(), isTried: fc.boolean() }), { maxLength: 8 }),
  seed: fc.integer(),
});

describe('the choice of a backend', () => {
  test('is never a tried one, one that failed only if there is no other, and somebody whenever there is somebody', () => {
    fc.assert(
      fc.property(world, ({ backends: given, seed }) => {
        const backends = given.map((each, index) => backend(`${index}`, each));
        const tried = backends.filter((_, index) => given[index]?.isTried === true);
        const left = backends.filter((each) => !tried.includes(each));
        const chosen = chooseBackend(backends, 0, seeded(seed), tried);
        if (left.length === 0) return assert.equal(chosen, undefined);
        assert.ok(chosen !== undefined && left.includes(chosen));
        assert.ok(chosen.usable || !left.some((each) => each.usable));
        return undefined;
      }),
      { numRuns: 1_000 },
    );
  });

  test('of two it is the less busy one', () => {
    const [busy, idle] = [backend('busy', { inFlight: 2 }), backend('idle', { inFlight: 1 })];
    for (let seed = 0; seed < 20; seed += 1) assert.equal(chooseBackend([busy, idle], 0, seeded(seed)), idle);
  });

  test('spreads evenly over those that are well', () => {
    const backends = ['a', 'b', 'c', 'd'].map((name) => backend(name, { usable: name !== 'b' }));
    const random = seeded(1);
    const counts = new Map<string, number>();
    for (let i = 0; i < 3_000; i += 1) {
      const { name = '' } = chooseBackend(backends, 0, random) ?? {};
      counts.set(name, (counts.get(name) ?? 0) + 1);
    }
    for (const name of ['a', 'c', 'd']) assert.ok(Math.abs((counts.get(name) ?? 0) - 1_000) < 150, name);
  });
});

describe('weights between releases', () => {
  const backends = ['old', 'old', 'new', 'other'].map((release, index) => backend(`${index}`, { release }));
  const weights = new Weights<Fake>([
    { release: 'old', weight: 90 },
    { release: 'gone', weight: 50 },
    { release: 'new', weight: 10 },
    { release: 'other', weight: 0 },
  ]);

  test('each release gets its share, and one without a share nothing', () => {
    const random = seeded(2);
    const counts: Record<string, number> = {};
    for (let i = 0; i < 10_000; i += 1) {
      const release = weights.choose(backends, random(), 0, random)?.release ?? '';
      counts[release] = (counts[release] ?? 0) + 1;
    }
    assert.deepEqual(Object.keys(counts).toSorted(), ['new', 'old']);
    assert.ok(Math.abs((counts['new'] ?? 0) - 1_000) < 120, `${counts['new']}`);
  });

  test('another release answers only when none of the right one is left to try', () => {
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
          new Weights<Fake>([
            { release: 'old', weight: 100 - share },
            { release: 'new', weight: share },
          ]).choose(backends, point, 0, seeded(4))?.release;
        if (releaseAt(before) === 'new') assert.equal(releaseAt(after), 'new');
      }),
    );
  });
});
