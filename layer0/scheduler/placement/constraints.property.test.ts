import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { Constraint } from '../cell.ts';
import { chooseMany } from './choose.ts';
import { explain } from './explain.ts';
import { hostAttribute, passes } from './host-classes.ts';
import type { HostSpec } from './host-table.ts';
import { demandOf, hostOf, policies, randomOf, tableOf } from './testing.ts';

const ids = Array.from({ length: 9 }, (_, at) => `h${at}`);
const attributes = ['zone', 'disk', 'rack'];
const values = ['a', 'b', 'c'];
const anyValue = fc.constantFrom(...values);

const host = fc.record({
  tags: fc.record({ zone: anyValue, disk: anyValue, rack: anyValue }, { requiredKeys: [] }),
  memory: fc.integer({ min: 0, max: 5 }),
  cpu: fc.integer({ min: 0, max: 5 }),
  isOpen: fc.nat(5).map((n) => n > 0),
  same: fc.nat(2),
  failures: fc.constantFrom(undefined, undefined, undefined, undefined, 1, 2),
  isExcluded: fc.nat(5).map((n) => n === 0),
});
const constraint: fc.Arbitrary<Constraint> = fc.oneof(
  fc.record({
    attribute: fc.constantFrom(...attributes),
    operator: fc.constantFrom('in', 'not_in', 'exists', 'missing', 'distinct'),
    values: fc.uniqueArray(anyValue, { minLength: 1, maxLength: 2 }),
  }),
  fc.record({
    attribute: fc.constant(hostAttribute),
    operator: fc.constantFrom('in', 'not_in', 'distinct'),
    values: fc.uniqueArray(fc.constantFrom(...ids), { minLength: 1, maxLength: 6 }),
  }),
);
const cells = fc.record({
  hosts: fc.array(host, { minLength: 1, maxLength: ids.length }),
  constraints: fc.array(constraint, { maxLength: 3 }),
  spread: fc.uniqueArray(fc.constantFrom(...attributes), { maxLength: 2 }),
  /** With so many racks a rack is a value of a host's own. */
  isWide: fc.nat(9).map((n) => n === 0),
  policy: fc.constantFrom(...policies),
  count: fc.integer({ min: 1, max: 12 }),
  slices: fc.integer({ min: 1, max: 3 }),
  seed: fc.nat(1_000),
});

/** What placing should come to, by looking at every host for every job. */
class Model {
  readonly #hosts = new Map<
    string,
    { tags: Readonly<Record<string, string>>; room: number; mayTake: boolean; jobs: number }
  >();
  readonly #constraints: readonly Constraint[];

  constructor(constraints: readonly Constraint[]) {
    this.#constraints = constraints;
  }

  put(id: string, tags: Readonly<Record<string, string>>, room: number, mayTake: boolean, jobs: number): void {
    this.#hosts.set(id, { tags: { ...tags, [hostAttribute]: id }, room, mayTake, jobs });
  }

  fits(id: string): boolean {
    const one = this.#hosts.get(id);
    return (
      one !== undefined && one.mayTake && one.room > 0 && this.#constraints.every((rule) => this.#isMet(rule, one.tags))
    );
  }

  take(id: string): void {
    const one = this.#hosts.get(id);
    if (one === undefined) return;
    one.room -= 1;
    one.jobs += 1;
  }

  jobsBy(attribute: string): Map<string | undefined, number> {
    const jobs = new Map<string | undefined, number>();
    for (const { tags, jobs: here } of this.#hosts.values()) {
      jobs.set(tags[attribute], (jobs.get(tags[attribute]) ?? 0) + here);
    }
    return jobs;
  }

  valueOf(id: string, attribute: string): string | undefined {
    return this.#hosts.get(id)?.tags[attribute];
  }

  #isMet(rule: Constraint, tags: Readonly<Record<string, string>>): boolean {
    const value = tags[rule.attribute];
    if (rule.operator !== 'distinct') return passes(rule, value);
    return value !== undefined && (this.jobsBy(rule.attribute).get(value) ?? 0) === 0;
  }
}

test('by whatever constraints, no host is taken that may not be, none that may be is left while a job waits, and jobs are spread', () => {
  fc.assert(
    fc.property(cells, ({ hosts, constraints, spread, isWide, policy, count, slices, seed }) => {
      const model = new Model(constraints);
      const demand = demandOf({ memoryBytes: 10, cpuMillis: 10 });
      const specs = hosts.map(({ tags, memory, cpu, isOpen }, at): HostSpec => {
        const capacity = { memoryBytes: memory * 10 + 5, cpuMillis: cpu * 10 + 5 };
        return hostOf(ids[at] ?? '', { attributes: tags, capacity, isOpen });
      });
      const crowd = Array.from({ length: 300 }, (_, at) =>
        hostOf(`x${at}`, { attributes: { rack: `r${at}` }, isOpen: false }),
      );
      const table = tableOf([...specs, ...(isWide ? crowd : [])]);
      table.setHome({ slice: 0, of: slices });
      const [same, penalties, exclude] = [new Map<number, number>(), new Map<number, number>(), new Set<number>()];
      for (const [at, one] of hosts.entries()) {
        const index = table.indexOf(ids[at] ?? '') ?? -1;
        same.set(index, one.same);
        if (one.failures !== undefined) penalties.set(index, one.failures);
        if (one.isExcluded) exclude.add(index);
        const mayTake = one.isOpen && !one.isExcluded;
        model.put(ids[at] ?? '', one.tags, Math.min(one.memory, one.cpu), mayTake, one.same);
      }
      const request = { policy, demand, constraints, spread, same, penalties, exclude, random: randomOf(seed) };
      assert.equal(explain(table, request).fitting, ids.filter((id) => model.fits(id)).length, 'what is said fits');
      const known = ids.slice(0, hosts.length);
      const isFailing = (id: string) => penalties.has(table.indexOf(id) ?? -1);
      const wasFitting = new Set(known.filter((id) => model.fits(id) && !isFailing(id)));
      const taken = new Map<string, number>();
      let placed = 0;
      for (const share of chooseMany(table, request, count)) {
        const id = table.idOf(share.index) ?? '';
        for (let job = 0; job < share.count; job += 1, placed += 1) {
          assert.ok(model.fits(id), `${id} may have a job`);
          model.take(id);
        }
        taken.set(id, share.count);
      }
      const left = known.filter((id) => model.fits(id));
      assert.ok(placed === count || left.length === 0, 'what fits somewhere is placed');
      const leftWell = left.filter((id) => !isFailing(id));
      if ([...taken.keys()].some(isFailing)) assert.deepEqual(leftWell, [], 'who has failed there goes there last');
      const [first] = spread;
      if (policy !== 'spread' || first === undefined || [...taken.keys()].some(isFailing)) return;
      const jobs = model.jobsBy(first);
      const byValue = Map.groupBy(taken, ([id]) => model.valueOf(id, first));
      for (const value of byValue.keys()) {
        for (const id of leftWell) {
          if (!wasFitting.has(id)) continue;
          const there = jobs.get(model.valueOf(id, first)) ?? 0;
          assert.ok((jobs.get(value) ?? 0) <= there + 1, `${value} got jobs that ${id} should have had`);
        }
      }
    }),
    { numRuns: 300, seed: 1 },
  );
});
