import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileOf, nextBackup, superfluous } from './plan.ts';

const hourMs = 3_600_000;
const start = Date.UTC(2027, 0, 1, 2, 30);

test('when it is due is a matter of the schedule, of what is pending, and of who wants it now', () => {
  const spec = { schedule: '0 3 * * *', to: { host: 'h', directory: '/b' }, keep: 2 };
  const at = (status: Parameters<typeof nextBackup>[0]['status'], now: number) => nextBackup({ spec, status }, now);
  const tick = start + hourMs / 2;
  assert.deepEqual(at({ handledMs: start }, start), { do: 'wait', untilMs: tick });
  assert.deepEqual(at({ handledMs: start }, tick + 5), {
    do: 'make',
    tickMs: tick + 5,
    attempt: 1,
    retryMs: tick + 60_005,
  });
  assert.equal(at({ handledMs: start }, tick + 400 * 24 * hourMs).do, 'make');
  const pending = { tickMs: tick, attempt: 2, nextMs: tick + 1_000 };
  assert.deepEqual(at({ handledMs: tick, pending }, tick), { do: 'wait', untilMs: tick + 1_000 });
  const again = at({ handledMs: tick, pending }, tick + 1_000);
  assert.ok(again.do === 'make' && again.tickMs === tick && again.attempt === 3);
  assert.equal(at({ handledMs: start, isWanted: true }, start).do, 'make');
});

test('where clocks change a backup is made once a day of its zone, also at a time that does not exist or exists twice', () => {
  const spec = { schedule: '30 2 * * *', timezone: 'Europe/Berlin', to: { host: 'h', directory: '/b' }, keep: 2 };
  const madeFrom = (from: string, days: number): string[] => {
    const made: string[] = [];
    let handledMs = Date.parse(from);
    for (let now = handledMs; now < Date.parse(from) + days * 24 * hourMs; now += hourMs / 2) {
      const step = nextBackup({ spec, status: { handledMs } }, now);
      if (step.do !== 'make') continue;
      handledMs = now;
      made.push(new Date(now).toISOString().slice(0, 16));
    }
    return made;
  };
  // From 02:00 to 03:00 at 01:00 UTC: half past two is made up for when the clocks have moved.
  assert.deepEqual(madeFrom('2026-03-28T12:00Z', 2), ['2026-03-29T01:00', '2026-03-30T00:30']);
  // From 03:00 back to 02:00 at 01:00 UTC: the first half past two counts.
  assert.deepEqual(madeFrom('2026-10-24T12:00Z', 2), ['2026-10-25T00:30', '2026-10-26T01:30']);
  const { timezone: _, ...withoutZone } = spec;
  const waits = nextBackup({ spec: withoutZone, status: { handledMs: start } }, start);
  assert.deepEqual(
    waits,
    { do: 'wait', untilMs: start + 24 * hourMs },
    'without a zone it is UTC, which has no such days',
  );
});

test('of two clusters of one name each removes its own, those of before names had an id among them', () => {
  const [cluster, twin] = [
    { name: 'prod', id: '0123456789abcdef' },
    { name: 'prod', id: 'fedcba9876543210' },
  ];
  const day = (number: number): number => Date.UTC(2027, 0, number);
  const own = [3, 4, 5].map((number) => fileOf(cluster, day(number)));
  const others = [1, 2, 3].map((number) => fileOf(twin, day(number)));
  const former = [1, 2].map((number) => `prod-2027010${number}T000000Z.backup`);
  const names = [...own, ...others, ...former, 'prod-old-20200101T000000Z.backup', 'x.backup', 'notes'];
  const at = { cluster, keep: 2, made: own[2] ?? '' };
  assert.deepEqual(superfluous(names, { ...at, recorded: new Set() }), [own[0]]);
  assert.deepEqual(superfluous(names, { ...at, recorded: new Set([...own, former[0] ?? '']) }), [own[0], former[0]]);
});
