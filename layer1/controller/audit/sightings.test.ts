import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { TaskGroup } from '@flynn/kit/tasks';
import { createMemoryStore } from '@flynn/store/memory';
import * as fc from 'fast-check';
import { Sightings, keepLooking } from './sightings.ts';

function open() {
  const clock = { nowMs: 0 };
  return { clock, sightings: new Sightings({ oldMs: 60_000, steadyNow: () => clock.nowMs }) };
}

test('what was seen once is old after its time, and what was written since is not', () => {
  const { clock, sightings } = open();
  sightings.note(10);
  clock.nowMs = 59_999;
  assert.equal(sightings.isOld(10), false);
  sightings.note(12);
  clock.nowMs = 60_000;
  assert.equal(sightings.isOld(10), true);
  assert.equal(sightings.isOld(9), true, 'it was there before');
  assert.equal(sightings.isOld(11), false);
  clock.nowMs = 119_999;
  assert.equal(sightings.isOld(12), true);
  assert.equal(sightings.isOld(13), false);
});

test('a process that has looked for long knows at once that something it never asked for is old', () => {
  const { clock, sightings } = open();
  for (let n = 0; n < 1_000; n += 1) {
    sightings.look(n);
    clock.nowMs += 1_000;
  }
  assert.equal(sightings.isOld(930), true);
  assert.equal(sightings.isOld(945), false);
});

test('of a store that was put back nothing is known any more', () => {
  const { clock, sightings } = open();
  sightings.look(100);
  clock.nowMs = 70_000;
  assert.equal(sightings.isOld(50), true);
  sightings.look(40);
  assert.equal(sightings.isOld(50), false);
  assert.equal(sightings.isOld(40), false);
});

test('who looks knows how far the store is, wherever it was written, also after it was away', async () => {
  await using store = createMemoryStore();
  const client = store.connect();
  const seen: number[] = [];
  const look = (revision: number) => void seen.push(revision);
  await using tasks = new TaskGroup();
  const options = { store: client, prefix: '/answers/', log: silentLogger(), lookMs: 1 };
  tasks.run('looking', (signal) => keepLooking({ look }, { ...options, signal }));
  const hasSeen = (revision: number) =>
    waitFor(() => seen.includes(revision), { what: `revision ${revision}`, deadlineMs: 30_000, intervalMs: 5 });
  const write = async () => (await store.transact({ then: [{ put: '/elsewhere', value: '1' }] })).revision;
  await hasSeen(await write());
  client.disconnect();
  const missed = await write();
  client.reconnect();
  await hasSeen(missed);
});

test('nothing is called old before its time, and everything some seconds after it at the latest', () => {
  const step = fc.record({ ms: fc.nat({ max: 20_000 }), writes: fc.nat({ max: 3 }) });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const { clock, sightings } = open();
      const writtenAt: number[] = [0];
      for (const { ms, writes } of steps) {
        clock.nowMs += ms;
        for (let n = 0; n < writes; n += 1) writtenAt.push(clock.nowMs);
        // As often as a process looks.
        sightings.look(writtenAt.length - 1);
        for (const [revision, atMs] of writtenAt.entries()) {
          const ageMs = clock.nowMs - atMs;
          if (ageMs < 60_000) assert.equal(sightings.isOld(revision), false);
          if (ageMs >= 60_000 + 20_000 + 5_000 + 20_000) assert.equal(sightings.isOld(revision), true);
        }
      }
    }),
  );
});
