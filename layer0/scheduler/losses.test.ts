import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LossWatch } from './loss-watch.ts';
import { judgeLosses, suspicionText, trackMissing } from './losses.ts';
import { hostOf, placedOf, workloadOf } from './testing.ts';
import { ToyCell } from './toy-cell.ts';

const pace = { graceMs: 10, holdMs: 100, returnMs: 50 };
const judge = (missing: Record<string, number>, present: number, now: number) =>
  judgeLosses({ ...pace, missingSince: new Map(Object.entries(missing)), present, now });

test('a host is lost after its grace', () => {
  const early = judge({ h1: 0 }, 2, 9);
  assert.deepEqual([[...early.lost], early.nextAt], [[], 10]);
  assert.deepEqual([...judge({ h1: 0 }, 1, 10).lost], ['h1']);
});

test('most hosts at once are suspected, held, and lost only after the hold', () => {
  const held = judge({ h1: 0, h2: 0 }, 1, 99);
  assert.deepEqual([[...held.lost], [...held.suspects], held.isHeld, held.nextAt], [[], ['h1', 'h2'], true, 100]);
  assert.equal(judge({ h1: 0, h2: 0 }, 1, 5).nextAt, 10, 'when there is something to tell');
  assert.equal(
    suspicionText(held, 1, 100_000),
    '2 of 3 hosts are away at once (h1, h2): rather the network or us, their work is held for 100 s',
  );
  const many = judge(Object.fromEntries(Array.from({ length: 500 }, (_, at) => [`h${at}`, 0])), 1, 10);
  assert.match(suspicionText(many, 1, 100) ?? '', /^500 of 501 hosts are away at once \(h0, h1, .*, 480 more\): /);
  const over = judge({ h1: 0, h2: 0 }, 1, 100);
  assert.deepEqual([[...over.lost], suspicionText(over, 1, 100_000)], [['h1', 'h2'], undefined]);
  assert.equal(suspicionText(judge({ h1: 0 }, 2, 9), 2, 100), undefined);
});

test('hosts that were given up long ago say nothing of one that goes now', () => {
  const missing = { h1: 0, h2: 40, h3: 1_000 };
  const first = judge(missing, 2, 1_005);
  assert.deepEqual([[...first.lost], first.isHeld, first.nextAt], [['h1', 'h2'], false, 1_010]);
  assert.deepEqual([...judge(missing, 2, 1_010).lost], ['h1', 'h2', 'h3']);
  assert.equal(judge({ ...missing, h3: 80 }, 2, 95).isHeld, true, 'not long ago');
});

test('those that go one after the other within the hold are away at once, and each is held for as long', () => {
  const missing = Object.fromEntries(Array.from({ length: 7 }, (_, at) => [`h${at}`, 10 * at]));
  const lostAt = (now: number) => judge(missing, 3, now).lost.size;
  assert.deepEqual([70, 99, 100, 110, 150, 159, 160].map(lostAt), [0, 0, 1, 2, 6, 6, 7]);
});

test('who was given up stays so while others are held, and when that is over', () => {
  const hosts = ['h1', 'h2', 'h3', 'h4', 'h5'];
  const web = workloadOf();
  const cell = new ToyCell().put(...hosts.map((id) => hostOf(id)));
  cell.assign(...hosts.map((hostId) => placedOf(web, hostId, { hostId })));
  const watch = new LossWatch({ lossGraceMs: 10, lossHoldMs: 100, lossReturnMs: 50 });
  const lostAt = (now: number) => {
    watch.disturb();
    const { fresh } = watch.look(cell, now);
    return [[...watch.lost].join(' '), fresh.join(' ')];
  };
  cell.hosts.delete('h1');
  assert.deepEqual(
    [lostAt(0), lostAt(10)],
    [
      ['', ''],
      ['h1', 'h1'],
    ],
  );
  for (const id of ['h2', 'h3', 'h4']) cell.hosts.delete(id);
  assert.deepEqual(
    [lostAt(1_000), lostAt(1_050)],
    [
      ['h1', ''],
      ['h1', ''],
    ],
  );
  for (const id of ['h2', 'h3']) cell.put(hostOf(id));
  // Only h4 is waited for.
  assert.deepEqual(
    [lostAt(1_060), lostAt(1_109)],
    [
      ['h1', ''],
      ['h1', ''],
    ],
  );
  assert.deepEqual(lostAt(1_110), ['h1 h4', 'h4']);
});

test('hosts that went all at once come back one by one: the last of them is waited for', () => {
  const web = workloadOf();
  const cell = new ToyCell().put(hostOf('h1'), hostOf('h2'), hostOf('h3'));
  cell.assign(...['h1', 'h2', 'h3'].map((hostId) => placedOf(web, hostId, { hostId })));
  const watch = new LossWatch({ lossGraceMs: 10, lossHoldMs: 1_000, lossReturnMs: 50 });
  const lostAt = (now: number) => {
    watch.disturb();
    watch.look(cell, now);
    return [...watch.lost];
  };
  cell.hosts.clear();
  assert.deepEqual(lostAt(0), []);
  assert.deepEqual(lostAt(200), []);
  cell.put(hostOf('h1'));
  assert.deepEqual(lostAt(300), []);
  cell.put(hostOf('h2'));
  assert.deepEqual(lostAt(400), []);
  assert.equal(watch.nextAt, 450);
  assert.deepEqual(lostAt(449), []);
  assert.deepEqual(lostAt(450), ['h3']);
  cell.put(hostOf('h3'));
  assert.deepEqual(lostAt(500), []);
  // Whoever goes later goes by itself.
  cell.hosts.delete('h2');
  assert.deepEqual(lostAt(600), []);
  assert.deepEqual(lostAt(610), ['h2']);
});

test('a host that is back is not lost from then on, and when it goes again that is another loss', () => {
  const web = workloadOf();
  const cell = new ToyCell().put(hostOf('h1'), hostOf('h2'), hostOf('h3'));
  cell.assign(placedOf(web, 'a'), placedOf(web, 'b', { hostId: 'h2' }));
  const watch = new LossWatch({ lossGraceMs: 10 });
  const look = (now: number) => {
    watch.disturb();
    return watch.look(cell, now).fresh;
  };
  cell.hosts.delete('h1');
  assert.deepEqual([look(0), look(10)], [[], ['h1']]);
  watch.found('h1');
  watch.found('h2');
  assert.deepEqual([...watch.lost], []);
  // It was there between two looks only.
  assert.deepEqual([look(20), [...watch.lost], watch.nextAt], [[], [], 30]);
  assert.deepEqual(look(30), ['h1']);
});

test('with no host left nothing is lost, ever, and it is said', () => {
  const verdict = judge({ h1: 0, h2: 0 }, 0, 1_000);
  assert.deepEqual([[...verdict.lost], verdict.nextAt], [[], undefined]);
  assert.match(
    suspicionText(verdict, 0, 100) ?? '',
    /^2 of 2 hosts are away at once .* nothing is moved while no host is there$/,
  );
});

test('a host is missed from when it was first missed, and forgotten when it is back or has no jobs', () => {
  const web = workloadOf();
  const cell = new ToyCell().put(hostOf('h2')).assign(placedOf(web, 'a'), placedOf(web, 'b', { hostId: 'h2' }));
  const first = trackMissing(new Map(), cell, 5);
  assert.deepEqual([...first], [['h1', 5]]);
  cell.hosts.delete('h2');
  assert.deepEqual(
    [...trackMissing(first, cell, 9)],
    [
      ['h1', 5],
      ['h2', 9],
    ],
  );
  cell.put(hostOf('h1'), hostOf('h2'));
  assert.deepEqual([...trackMissing(first, cell, 9)], []);
  cell.jobs.clear();
  assert.deepEqual([...trackMissing(first, new ToyCell(), 9)], []);
});
