import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { chooseBackend } from './choice.ts';
import { seeded } from './testing.ts';

type Fake = { name: string; inFlight: number; usable: boolean; isUsable(): boolean };

function backend(name: string, changes: Partial<Fake> = {}): Fake {
  const fake: Fake = { name, inFlight: 0, usable: true, isUsable: () => fake.usable, ...changes };
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
