import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Constraint } from '../cell.ts';
import { choose, chooseMany } from './choose.ts';
import { explain } from './explain.ts';
import type { HostTable } from './host-table.ts';
import type { PlaceRequest } from './request.ts';
import { demandOf, hostOf, policies, randomOf, requestOf, tableOf, zoned } from './testing.ts';

const mebibyte = 2 ** 20;

/** Chooses and claims; hosts by id with their jobs. */
function place(table: HostTable, request: PlaceRequest, count: number): Map<string, number> {
  const shares = chooseMany(table, request, count);
  for (const { index, count: jobs } of shares) table.claim(index, request.demand, jobs);
  return new Map(shares.map(({ index, count: jobs }) => [table.idOf(index) ?? '', jobs]));
}

function sum(shares: Map<string, number>): number {
  return [...shares.values()].reduce((total, jobs) => total + jobs, 0);
}

function constraint(attribute: string, operator: Constraint['operator'], ...values: string[]): Constraint {
  return { attribute, operator, values };
}

describe('every policy', () => {
  for (const policy of policies) {
    test(`${policy} places exactly as many as there is room for`, () => {
      const table = tableOf(zoned(7));
      const placed = place(table, requestOf({ policy, spread: ['zone'] }), 100);
      assert.equal(sum(placed), 70);
      assert.equal(choose(table, requestOf({ policy, spread: ['zone'] })), undefined);
    });

    test(`${policy} gives the same hosts for the same seed`, () => {
      const run = (): Map<string, number> => {
        const table = tableOf(zoned(50));
        const request = requestOf({ policy, spread: ['zone'], random: randomOf(7) });
        place(table, request, 30);
        return place(table, request, 30);
      };
      assert.deepEqual(run(), run());
    });

    test(`${policy} leaves closed, excluded and unfit hosts alone`, () => {
      const table = tableOf([
        hostOf('closed', { isOpen: false }),
        hostOf('excluded'),
        hostOf('elsewhere', { attributes: { zone: 'b' } }),
        hostOf('good', { attributes: { zone: 'a' } }),
      ]);
      const exclude = new Set([table.indexOf('excluded') ?? -1]);
      const request = requestOf({ policy, exclude, constraints: [constraint('zone', 'in', 'a')] });
      assert.deepEqual([...place(table, request, 4).entries()], [['good', 4]]);
    });

    test(`${policy} takes hosts with failures last, fewest first`, () => {
      const table = tableOf(['a', 'b', 'c'].map((id) => hostOf(id, { capacity: demandOf() })));
      const index = (id: string): number => table.indexOf(id) ?? -1;
      const penalties = new Map([
        [index('a'), 2],
        [index('b'), 1],
      ]);
      const request = requestOf({ policy, penalties });
      const order = ['c', 'b', 'a'];
      assert.deepEqual(
        order.map(() => [...place(table, request, 1).keys()][0]),
        order,
      );
    });

    test(`${policy} keeps to one job per value under distinct, jobs that are there counted`, () => {
      const table = tableOf(zoned(9));
      const same = new Map([[table.indexOf('h0') ?? -1, 1]]);
      const zones = requestOf({ policy, same, spread: ['zone'], constraints: [constraint('zone', 'distinct')] });
      const placed = [...place(table, zones, 5).keys()].map((id) => table.valueOf(table.indexOf(id) ?? -1, 'zone'));
      assert.deepEqual(new Set(placed), new Set(['b', 'c']));
      assert.equal(placed.length, 2);
      const hosts = requestOf({ policy, same, constraints: [constraint('host', 'distinct')] });
      const onHosts = place(table, hosts, 20);
      assert.equal(onHosts.size, 8);
      assert.ok([...onHosts.values()].every((jobs) => jobs === 1));
    });

    test(`${policy} uses its home slice before any other host`, () => {
      const table = tableOf(zoned(40));
      table.setHome({ slice: 1, of: 4 });
      const ids = Array.from({ length: 40 }, (_, at) => `h${at}`);
      const own = ids.filter((id) => table.isHome(table.indexOf(id) ?? -1));
      assert.ok(own.length > 0 && own.length < 40);
      const placed = place(table, requestOf({ policy }), own.length);
      assert.ok([...placed.keys()].every((id) => own.includes(id)));
      assert.equal(sum(place(table, requestOf({ policy }), 400)), 400 - own.length, 'then all others');
    });
  }
});

describe('pack', () => {
  for (const policy of ['pack', 'spread'] as const) {
    test(`${policy} leaves no memory on hosts of which all cpu is taken, and no cpu the other way round, where others suit better`, () => {
      const shapes = [
        { cpuMillis: 32_000, memoryBytes: 32_000 * mebibyte },
        { cpuMillis: 4_000, memoryBytes: 128_000 * mebibyte },
      ];
      const table = tableOf(
        Array.from({ length: 60 }, (_, at) => hostOf(`h${at}`, { capacity: shapes[at % 2] ?? demandOf() })),
      );
      const demands = [
        demandOf({ cpuMillis: 100, memoryBytes: 4_000 * mebibyte }),
        demandOf({ cpuMillis: 2_000, memoryBytes: 500 * mebibyte }),
        demandOf({ cpuMillis: 250, memoryBytes: 1_000 * mebibyte }),
      ];
      const random = randomOf(3);
      let taken = 0;
      for (;;) {
        const demand = demands[Math.floor(random() * demands.length)] ?? demandOf();
        if (sum(place(table, requestOf({ policy, demand, random }), 1)) === 0) break;
        taken += demand.cpuMillis;
      }
      const share = taken / (30 * 36_000);
      assert.ok(share > 0.9, `of the cpu ${Math.round(100 * share)} % were taken when a job found no room`);
    });
  }

  test('fills the tightest host that has room', () => {
    const table = tableOf([hostOf('empty'), hostOf('tight'), hostOf('full')]);
    table.claim(table.indexOf('tight') ?? -1, demandOf(), 7);
    table.claim(table.indexOf('full') ?? -1, demandOf(), 10);
    assert.deepEqual(
      [...place(table, requestOf(), 5)],
      [
        ['tight', 3],
        ['empty', 2],
      ],
    );
  });

  test('uses far fewer hosts than spread or two choices for the same jobs', () => {
    const used = policies.map((policy) => {
      const table = tableOf(zoned(100));
      const random = randomOf(3);
      const sizes = [50, 100, 200, 300];
      const hosts = new Set<string>();
      for (let job = 0; job < 200; job++) {
        const size = sizes[Math.floor(random() * sizes.length)] ?? 0;
        const demand = demandOf({ memoryBytes: size * mebibyte, cpuMillis: size });
        for (const id of place(table, requestOf({ policy, demand, random }), 1).keys()) hosts.add(id);
      }
      return hosts.size;
    });
    // 200 jobs of 162 on average need 33 hosts of 1,000 at the least.
    assert.ok((used[0] ?? 100) <= 36, `pack used ${used[0]}`);
    assert.ok((used[2] ?? 0) >= 80, `two choices used ${used[2]}`);
  });
});

describe('spread', () => {
  test('differs by at most one over zones and over the hosts of a zone', () => {
    const table = tableOf(zoned(12));
    const placed = place(table, requestOf({ policy: 'spread', spread: ['zone'] }), 32);
    const byZone = Map.groupBy(placed, ([id]) => table.valueOf(table.indexOf(id) ?? -1, 'zone'));
    assert.deepEqual(
      [...byZone.values()].map((hosts) => hosts.reduce((n, [, jobs]) => n + jobs, 0)).toSorted((a, b) => a - b),
      [10, 11, 11],
    );
    for (const hosts of byZone.values()) {
      assert.equal(hosts.length, 4);
      assert.ok(hosts.every(([, jobs]) => jobs === 2 || jobs === 3));
    }
  });

  test('counts the jobs that are there, a value at a time', () => {
    const hosts = ['a', 'b'].flatMap((zone) =>
      ['x', 'y'].flatMap((rack) => [1, 2].map((at) => hostOf(`${zone}${rack}${at}`, { attributes: { zone, rack } }))),
    );
    for (let seed = 0; seed < 8; seed++) countRacks(tableOf(hosts), randomOf(seed));
  });

  function countRacks(table: HostTable, random: () => number): void {
    const same = new Map([
      [table.indexOf('ax1') ?? -1, 1],
      [table.indexOf('ax2') ?? -1, 1],
      [table.indexOf('bx1') ?? -1, 1],
    ]);
    const placed = place(table, requestOf({ policy: 'spread', spread: ['zone', 'rack'], same, random }), 3);
    const racks = [...placed].flatMap(([id, jobs]) => Array.from({ length: jobs }, () => id.slice(0, 2))).toSorted();
    // Zone a has two already and gets one, on the rack without any; zone b has one and gets two, the first on rack by.
    assert.deepEqual(racks.slice(0, 1), ['ay']);
    assert.ok(racks.includes('by') && racks.every((rack) => rack === 'ay' || rack.startsWith('b')));
    assert.ok([...placed.values()].every((jobs) => jobs === 1));
  }

  test('goes on where there is room when a zone is full', () => {
    const table = tableOf([...zoned(3), hostOf('small', { capacity: demandOf(), attributes: { zone: 'd' } })]);
    const placed = place(table, requestOf({ policy: 'spread', spread: ['zone'] }), 31);
    assert.equal(sum(placed), 31);
    assert.equal(placed.get('small'), 1);
  });

  test('works over an attribute with a value per host', () => {
    const table = tableOf(
      Array.from({ length: 600 }, (_, at) => hostOf(`h${at}`, { attributes: { rack: `r${at >> 1}` } })),
    );
    const placed = place(table, requestOf({ policy: 'spread', spread: ['rack'] }), 300);
    assert.equal(table.isWide('rack'), true);
    assert.equal(new Set([...placed.keys()].map((id) => table.valueOf(table.indexOf(id) ?? -1, 'rack'))).size, 300);
  });
});

describe('constraints', () => {
  const table = tableOf([
    hostOf('a', { attributes: { disk: 'ssd', name: 'a' } }),
    hostOf('b', { attributes: { disk: 'hdd', name: 'b' } }),
    hostOf('c', { attributes: { name: 'c' } }),
  ]);
  const cases: [constraints: Constraint[], hosts: string[]][] = [
    [[], ['a', 'b', 'c']],
    [[constraint('disk', 'in', 'ssd', 'nvme')], ['a']],
    [[constraint('disk', 'not_in', 'ssd')], ['b', 'c']],
    [[constraint('disk', 'exists')], ['a', 'b']],
    [[constraint('disk', 'missing')], ['c']],
    [[constraint('disk', 'exists'), constraint('name', 'not_in', 'a')], ['b']],
    [[constraint('host', 'in', 'c', 'b', 'gone')], ['b', 'c']],
    [[constraint('host', 'in', 'c', 'a'), constraint('disk', 'exists')], ['a']],
    [[constraint('host', 'not_in', 'c')], ['a', 'b']],
  ];
  for (const [constraints, hosts] of cases) {
    test(`${JSON.stringify(constraints.map((c) => [c.attribute, c.operator, ...c.values]))} leave ${hosts.join(' ')}`, () => {
      for (const policy of policies) {
        const shares = chooseMany(table, requestOf({ policy, constraints }), 30);
        assert.deepEqual(shares.map(({ index }) => table.idOf(index) ?? '').toSorted(), hosts);
      }
    });
  }

  test('hold with more values than there can be classes', () => {
    const many = tableOf(
      Array.from({ length: 1_000 }, (_, at) => hostOf(`h${at}`, { attributes: { serial: `s${at}` } })),
    );
    const one = [constraint('serial', 'in', 's500', 's7')];
    assert.deepEqual([...place(many, requestOf({ constraints: one }), 30).keys()].toSorted(), ['h500', 'h7']);
    const others = [constraint('serial', 'not_in', ...Array.from({ length: 999 }, (_, at) => `s${at}`))];
    assert.deepEqual([...place(many, requestOf({ constraints: others }), 30)], [['h999', 10]]);
  });

  test('see hosts as they are now', () => {
    const hosts = tableOf([hostOf('a')]);
    const constraints = [constraint('disk', 'in', 'ssd')];
    assert.equal(choose(hosts, requestOf({ constraints })), undefined);
    hosts.put(hostOf('a', { attributes: { disk: 'ssd' } }));
    assert.equal(choose(hosts, requestOf({ constraints })), 0);
    hosts.put(hostOf('a', { attributes: { disk: 'ssd' }, isOpen: false }));
    assert.equal(choose(hosts, requestOf({ constraints })), undefined);
  });
});

describe('explain', () => {
  test('counts each host for the first check it fails, and for all that it has too little of', () => {
    const table = tableOf([
      hostOf('cordoned', { isOpen: false, attributes: { disk: 'ssd' } }),
      hostOf('hdd', { attributes: { disk: 'hdd' } }),
      hostOf('port', { attributes: { disk: 'ssd' } }),
      hostOf('memory', { attributes: { disk: 'ssd' } }),
      hostOf('cpu', { attributes: { disk: 'ssd' } }),
      hostOf('both', { attributes: { disk: 'ssd' } }),
      hostOf('small', { attributes: { disk: 'ssd' }, capacity: { memoryBytes: 10 * mebibyte, cpuMillis: 50 } }),
      hostOf('good', { attributes: { disk: 'ssd' } }),
    ]);
    const index = (id: string): number => table.indexOf(id) ?? -1;
    table.claim(index('port'), demandOf({ hostPorts: [80], family: 'other' }));
    table.setUsed(index('memory'), { memoryBytes: 990 * mebibyte, cpuMillis: 0 });
    table.setUsed(index('cpu'), { memoryBytes: 0, cpuMillis: 990 });
    table.setUsed(index('both'), { memoryBytes: 990 * mebibyte, cpuMillis: 990 });
    const request = requestOf({
      demand: demandOf({ hostPorts: [80] }),
      constraints: [constraint('disk', 'in', 'ssd')],
    });
    const { hosts, fitting, obstacles } = explain(table, request);
    assert.deepEqual(
      { hosts, fitting, obstacles },
      {
        hosts: 8,
        fitting: 1,
        obstacles: {
          'disk is not ssd': 1,
          cordoned: 1,
          'port 80 is taken': 1,
          memory: 2,
          cpu: 2,
          'asks for more memory than the host has': 1,
          'asks for more cpu than the host has': 1,
        },
      },
    );
  });
});
