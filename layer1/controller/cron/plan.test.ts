import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { maxRunning, nextAction, withReplaced, withRun } from './plan.ts';
import type { CronState } from './plan.ts';
import { parseSchedule } from './schedule.ts';
import type { CronRun } from './model.ts';

const minute = 60_000;
const everyMinute = parseSchedule('* * * * *');
const state = (change: Partial<CronState> = {}): CronState => ({ isPaused: false, handledMs: 0, runs: [], ...change });
const running: CronRun = { workloadId: 'before', state: 'running', startedAt: '' };

test('a tick is due from its moment on, and once', () => {
  assert.deepEqual(nextAction(everyMinute, 'forbid', state(), minute - 1), { do: 'wait', untilMs: minute });
  assert.deepEqual(nextAction(everyMinute, 'forbid', state(), minute), { do: 'run', tickMs: minute, replaces: [] });
  assert.deepEqual(nextAction(everyMinute, 'forbid', state({ handledMs: minute }), minute + 5), {
    do: 'wait',
    untilMs: 2 * minute,
  });
});

test('of many missed ticks the last is made up for', () => {
  const action = nextAction(everyMinute, 'forbid', state(), 1_000 * minute + 30_000);
  assert.deepEqual(action, { do: 'run', tickMs: 1_000 * minute, replaces: [] });
});

test('what still runs is waited for, joined or replaced', () => {
  const busy = state({ runs: [running] });
  assert.deepEqual(nextAction(everyMinute, 'forbid', busy, minute), {
    do: 'skip',
    tickMs: minute,
    why: 'the run before was still going on',
  });
  assert.deepEqual(nextAction(everyMinute, 'allow', busy, minute), { do: 'run', tickMs: minute, replaces: [] });
  const replaced = nextAction(everyMinute, 'replace', busy, minute);
  assert.deepEqual(replaced, { do: 'run', tickMs: minute, replaces: ['before'] });
});

test('paused, its ticks pass', () => {
  const paused = state({ isPaused: true });
  assert.deepEqual(nextAction(everyMinute, 'forbid', paused, 5 * minute), { do: 'wait', untilMs: undefined });
});

test('a clock that was put back runs nothing twice; one that was days ahead is not waited for', () => {
  const ahead = state({ handledMs: 10 * minute });
  assert.deepEqual(nextAction(everyMinute, 'forbid', ahead, 3 * minute), { do: 'wait', untilMs: 11 * minute });
  const days = state({ handledMs: 10_000 * minute });
  assert.deepEqual(nextAction(everyMinute, 'forbid', days, 3 * minute), { do: 'reset' });
});

test('what ran before the clock was days behind does not run again once it is right', () => {
  const ran: CronRun = { tick: new Date(10_000 * minute).toISOString(), state: 'done', startedAt: '' };
  const reset = state({ handledMs: 3 * minute, runs: [ran] });
  const at = 10_000 * minute + 5;
  assert.deepEqual(nextAction(everyMinute, 'forbid', reset, at), { do: 'wait', untilMs: 10_001 * minute });
});

test('however the clock steps within a day, no tick runs twice', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: -30, max: 90 }), { maxLength: 60 }), (stepsInMinutes) => {
      let nowMs = 1_000 * minute;
      let handledMs = nowMs;
      const ran = new Set<number>();
      for (const step of stepsInMinutes) {
        nowMs = Math.max(500 * minute, nowMs + step * minute);
        if (handledMs > nowMs + 23 * 60 * minute) continue;
        const action = nextAction(everyMinute, 'allow', state({ handledMs }), nowMs);
        if (action.do === 'wait' || action.do === 'reset') continue;
        assert.ok(!ran.has(action.tickMs));
        assert.ok(action.tickMs <= nowMs);
        ran.add(action.tickMs);
        handledMs = action.tickMs;
      }
    }),
    { seed: 3 },
  );
});

const ran: CronRun = { workloadId: 'ended', state: 'done', startedAt: '' };
const skipped: CronRun = { state: 'skipped', startedAt: '' };
const added = (before: CronRun[], run: CronRun, times: number): CronRun[] =>
  Array.from({ length: times }).reduce<CronRun[]>((runs) => withRun(runs, run), before);

test('the newest runs are kept, and all that still run', () => {
  assert.equal(added([], ran, 30).length, 20);
  const runs = added(added(added([], running, 1), ran, 30), running, 25);
  assert.deepEqual(
    runs.map(({ state }) => state),
    Array.from({ length: 26 }, () => 'running'),
  );
});

test('ticks skipped one after the other are one entry, the last of them', () => {
  const once = added([running], skipped, 1);
  assert.deepEqual(once, [skipped, running]);
  const often = added(once, { ...skipped, tick: 'last' }, 20);
  assert.deepEqual(often, [{ ...skipped, tick: 'last', skips: 21 }, running]);
  assert.deepEqual(added(added(often, ran, 1), skipped, 1).slice(0, 2), [skipped, ran]);
});

test('of runs that join each other there are so many, and a tick beyond them is skipped', () => {
  const busy = (count: number) => state({ runs: added([], running, count) });
  assert.equal(nextAction(everyMinute, 'allow', busy(99), minute).do, 'run');
  const action = nextAction(everyMinute, 'allow', busy(100), minute);
  assert.deepEqual(action, { do: 'skip', tickMs: minute, why: '100 runs before were still going on' });
});

/** What a line has once it ran at so many ticks, and no job of it ends. */
function endlessly(runs: CronRun[], ticks: number): { runs: CronRun[]; told: string[]; most: number } {
  const told: string[] = [];
  let most = 0;
  for (let tick = 1; tick <= ticks; tick += 1) {
    const action = nextAction(everyMinute, 'replace', state({ handledMs: (tick - 1) * minute, runs }), tick * minute);
    assert.ok(action.do === 'run' || action.do === 'skip');
    const replaces = action.do === 'run' ? action.replaces : [];
    told.push(...replaces);
    most = Math.max(most, replaces.length);
    const run: CronRun =
      action.do === 'run' ? { ...running, workloadId: `run${tick}` } : { ...skipped, error: action.why };
    runs = withRun(withReplaced(runs, replaces, 'now'), run);
  }
  return { runs, told, most };
}

test('a run is told once to make room for the next; of those that do not end there are so many, and then ticks are skipped', () => {
  const { runs, told, most } = endlessly([], 1_000);
  assert.deepEqual([told.length, new Set(told).size, most], [maxRunning, maxRunning, 1]);
  assert.equal(runs.filter(({ state }) => state === 'running').length, maxRunning + 1);
  assert.equal(runs[0]?.error, '100 runs before were told to stop and have not ended');
  const ended = runs.filter(({ replacedAt }) => replacedAt === undefined);
  const action = nextAction(everyMinute, 'replace', state({ runs: ended }), minute);
  assert.deepEqual(action, { do: 'run', tickMs: minute, replaces: [`run${maxRunning + 1}`] });
});

test('a line with more of them than one transaction takes, of before it was noted who was told, goes on too', () => {
  const before = Array.from({ length: 520 }, (_, at) => ({ ...running, workloadId: `old${at}` }));
  const { told, most } = endlessly(before, 50);
  assert.deepEqual([told.length, most], [maxRunning, maxRunning]);
  assert.equal(told[0], 'old0', 'the newest, which nobody has told');
});
