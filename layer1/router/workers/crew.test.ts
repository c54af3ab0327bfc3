import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { freePort } from '@flynn/kit/testing-ports';
import type { Voice } from '../server.ts';
import { Crew } from './crew.ts';

const soon = { deadlineMs: 60_000, intervalMs: 10 };
const fixture = new URL('./fixture.ts', import.meta.url).pathname;

const nobody: Voice = {
  status: () => Promise.reject(new Error('nobody is asked here')),
  routeStats: async () => undefined,
  allStats: async () => [],
  appCounts: async () => ({ apps: [], unknown: [] }),
  isSo: async () => false,
};

/** The own process is the test's, which has something under way until `end`. */
async function start(
  t: TestContext,
  count: number,
  options: { isBroken?: (index: number) => boolean; onFork?: () => void } = {},
) {
  const port = await freePort();
  const last: unknown[] = [];
  const stops: { drainMs: number }[] = [];
  const ended = Promise.withResolvers<unknown>();
  const crew = await Crew.start({
    count,
    spawn(index) {
      options.onFork?.();
      return fork(fixture, [String(port), options.isBroken?.(index) === true ? 'broken' : '']);
    },
    startOwn: async () => ({
      voice: nobody,
      answers: { pid: async () => process.pid },
      stop(stopping) {
        stops.push(stopping);
        if (stopping.drainMs < Infinity) ended.resolve('cut');
        return ended.promise;
      },
    }),
    startDeadlineMs: 60_000,
    onLast: (counts) => last.push(counts),
    log: silentLogger(),
  });
  t.after(() => crew.stop({ drainMs: 30_000 }));
  return { crew, last, stops, end: ended.resolve, fail: ended.reject };
}

test('one is this process; a second is two workers in its place, which ends what it has', async (t) => {
  const { crew, last, stops, end } = await start(t, 1);
  assert.deepEqual([crew.count, crew.speakers, crew.takingPids], [1, 1, [process.pid]]);
  assert.deepEqual(await crew.ask('pid'), [process.pid]);
  assert.ok(crew.alone !== undefined);
  await assert.rejects(crew.shrink(), /the only process/);

  await crew.grow();
  assert.equal(crew.count, 2);
  assert.equal(crew.takingPids.includes(process.pid), false);
  await waitFor(() => stops.length === 1, { what: 'the own process to leave', ...soon });
  assert.deepEqual([stops[0]?.drainMs, crew.speakers, crew.alone], [Infinity, 3, undefined]);
  assert.deepEqual(new Set(await crew.ask('pid')), new Set([process.pid, ...crew.takingPids]));

  end({ all: 'that it counted' });
  await waitFor(() => crew.speakers === 2, { what: 'its end', ...soon });
  assert.deepEqual(last, [{ all: 'that it counted' }]);
  assert.deepEqual(new Set(await crew.ask('pid')), new Set(crew.takingPids));

  await crew.grow();
  assert.equal(crew.count, 3);
  assert.equal(await crew.shrink(), 'left');
  assert.equal(await crew.shrink(), 'left');
  assert.deepEqual([crew.count, crew.takingPids.length], [1, 1]);
});

test('of more there are workers from the beginning', async (t) => {
  const { crew } = await start(t, 2);
  assert.deepEqual([crew.count, crew.speakers, crew.takingPids.includes(process.pid)], [2, 2, false]);
});

test('where no worker can be started this process goes on alone', async (t) => {
  const { crew, stops } = await start(t, 1, { isBroken: () => true });
  await assert.rejects(crew.grow(), /ended before it served/);
  assert.deepEqual([crew.count, crew.takingPids, stops], [1, [process.pid], []]);
  assert.deepEqual(await crew.ask('pid'), [process.pid]);
});

test('where only one worker can be started it takes the place of this process', async (t) => {
  const { crew, stops, end } = await start(t, 1, { isBroken: (index) => index === 1 });
  await assert.rejects(crew.grow(), /ended before it served/);
  assert.deepEqual([crew.count, crew.takingPids.length, stops.length], [1, 1, 1]);
  assert.equal(crew.takingPids.includes(process.pid), false);
  end({});
  await waitFor(() => crew.speakers === 1, { what: 'its end', ...soon });
});

test('what this process has that cannot be ended as it should is asked no more', async (t) => {
  const { crew, last, fail } = await start(t, 1);
  await crew.grow();
  fail(new Error('no end'));
  await waitFor(() => crew.speakers === 2, { what: 'it to be left out', ...soon });
  assert.deepEqual([last, await crew.ask('pid')], [[], crew.takingPids]);
});

test('told to stop while it ends what it has, that is cut in time too', async (t) => {
  const { crew, stops, last } = await start(t, 1);
  await crew.grow();
  await waitFor(() => stops.length === 1, { what: 'the own process to leave', ...soon });
  await crew.stop({ drainMs: 1_000 });
  assert.deepEqual(
    stops.map(({ drainMs }) => drainMs),
    [Infinity, 1_000],
  );
  assert.deepEqual([last, crew.speakers], [['cut'], 0]);
});

test('told to stop while workers start, none is left', async (t) => {
  const { promise: forked, resolve } = Promise.withResolvers<void>();
  const { crew, stops } = await start(t, 1, { onFork: resolve });
  const growing = assert.rejects(crew.grow(), /being stopped/);
  await forked;
  await crew.stop({ drainMs: 1_000 });
  await growing;
  assert.deepEqual([crew.takingPids, stops.length], [[process.pid], 1]);
});
