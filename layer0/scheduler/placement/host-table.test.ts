import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Constraint, Demand } from '../cell.ts';
import { choose, chooseMany } from './choose.ts';
import { demandOf, hostOf, policies, randomOf, requestOf, tableOf, zoned } from './testing.ts';

test('a table finds the one host with room among many that nearly have it', () => {
  const free = (index: number, last: number): number => (index === last ? 96 : 94);
  for (const last of [0, 15, 16, 17, 39]) {
    const hosts = Array.from({ length: 40 }, (_, at) => hostOf(`h${at}`));
    const table = tableOf(hosts);
    for (const [index] of hosts.entries()) {
      table.setUsed(index, { memoryBytes: 0, cpuMillis: 1_000 - free(index, last) });
    }
    for (const policy of policies) {
      assert.equal(choose(table, requestOf({ policy, demand: demandOf({ cpuMillis: 95 }) })), last);
    }
  }
});

test('a table has room on hosts larger than any before', () => {
  const table = tableOf([hostOf('small', { capacity: demandOf() })]);
  const terabyte = 2 ** 40;
  table.put(hostOf('large', { capacity: { memoryBytes: 4 * terabyte + 1, cpuMillis: 100 } }));
  const demand = demandOf({ memoryBytes: 4 * terabyte, cpuMillis: 10 });
  assert.equal(choose(table, requestOf({ demand })), table.indexOf('large'));
  table.claim(table.indexOf('large') ?? -1, demand);
  assert.deepEqual(table.usedOf(table.indexOf('large') ?? -1), {
    memoryBytes: 4 * terabyte,
    cpuMillis: 10,
    ports: {},
  });
  assert.equal(table.fits(table.indexOf('large') ?? -1, demandOf({ memoryBytes: 1, cpuMillis: 90 })), true);
  assert.equal(table.fits(table.indexOf('large') ?? -1, demandOf({ memoryBytes: 2, cpuMillis: 90 })), false);
});

test('a table gives a host port to one family at a time, to as many of its jobs as there are', () => {
  const table = tableOf([hostOf('a')]);
  const demand = (family: string): Demand => demandOf({ hostPorts: [80, 443], family });
  table.claim(0, demand('x'), 2);
  assert.deepEqual(table.usedOf(0).ports, { 80: { family: 'x', jobs: 2 }, 443: { family: 'x', jobs: 2 } });
  table.release(0, demand('x'));
  assert.deepEqual([table.takenPort(0, demand('y')), table.fits(0, demand('x'))], [80, true]);
  table.release(0, demand('x'));
  assert.equal(table.fits(0, demand('y')), true);
  table.setUsed(0, { memoryBytes: 0, cpuMillis: 0, ports: { 443: { family: 'x', jobs: 1 } } });
  assert.equal(table.takenPort(0, demand('y')), 443);
});

test('a table takes another home slice from one request to the next', () => {
  const table = tableOf(zoned(60));
  const constraints: Constraint[] = [];
  const homes = [
    [0, 3],
    [1, 2],
    [3, 4],
    [0, 1],
  ] as const;
  for (const [slice, of] of homes) {
    table.setHome({ slice, of });
    for (const policy of policies) {
      const shares = chooseMany(table, requestOf({ policy, constraints }), 5);
      assert.ok(shares.every(({ index }) => table.isHome(index)));
    }
  }
  assert.throws(() => table.setHome({ slice: 3, of: 3 }), /home slice 3 of 3/);
});

test('a table knows every host once, whatever was claimed and released in between', () => {
  const table = tableOf(zoned(200));
  const random = randomOf(9);
  const claimed = new Map<number, number>();
  for (let at = 0; at < 5_000; at++) {
    const index = Math.floor(random() * 200);
    const jobs = claimed.get(index) ?? 0;
    if (jobs > 0 && random() < 0.5) table.release(index, demandOf());
    else if (jobs < 9) table.claim(index, demandOf());
    else continue;
    claimed.set(index, table.usedOf(index).cpuMillis / 100);
  }
  const shares = chooseMany(table, requestOf(), 10_000);
  const expected = Array.from({ length: 200 }, (_, index) => ({ index, count: 10 - (claimed.get(index) ?? 0) }));
  assert.deepEqual(
    shares.toSorted((a, b) => a.index - b.index),
    expected,
  );
});

test('a table tells hosts apart by values that come and go, for ever', () => {
  const table = tableOf([hostOf('stays', { attributes: { release: 'r0' } })]);
  for (let at = 0; at < 600; at++) {
    const constraints: Constraint[] = [{ attribute: 'release', operator: 'in', values: [`r${at}`] }];
    table.put(hostOf('stays', { attributes: { release: `r${at}` } }));
    assert.equal(choose(table, requestOf({ constraints })), 0);
  }
  assert.equal(table.isWide('release'), false);
});
