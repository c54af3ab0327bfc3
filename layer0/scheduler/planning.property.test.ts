/** Whatever jobs there are: a decision is never too much, and carried out again and again it reaches what is wanted. */
import * as fc from 'fast-check';
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { JobState, Workload } from './cell.ts';
import type { PlacedJob } from './cell-view.ts';
import type { Departure } from './drain.ts';
import { reconcileOmni } from './omni-slots.ts';
import type { Decision, ReconcileInput } from './reconcile.ts';
import { reconcileEphemeral, reconcileGang } from './runs.ts';
import { reconcileService } from './slots.ts';
import { hostOf, mebibyte, placedOf, workloadOf } from './testing.ts';
import { ToyCell } from './toy-cell.ts';

const now = 1_000_000;
const hostIds = ['h1', 'h2', 'h3', 'h4'];

type JobSketch = Readonly<{
  index: number;
  version: string;
  hostId: string;
  state: JobState | undefined;
  isStopped: boolean;
  createdAt: number;
}>;

const jobSketch: fc.Arbitrary<JobSketch> = fc.record({
  index: fc.integer({ min: 0, max: 12 }),
  version: fc.constantFrom('v1', 'v2'),
  hostId: fc.constantFrom(...hostIds),
  state: fc.constantFrom(
    undefined,
    'starting' as const,
    'running' as const,
    'crashed' as const,
    'done' as const,
    'failed' as const,
  ),
  isStopped: fc.boolean(),
  createdAt: fc.integer({ min: 0, max: 5 }),
});
const departure: fc.Arbitrary<Departure> = fc.record({
  maxParallel: fc.integer({ min: 1, max: 3 }),
  isDue: fc.boolean(),
  why: fc.constantFrom('draining' as const, 'unsuited' as const),
});
const inputs = fc.record({
  jobs: fc.array(jobSketch, { maxLength: 16 }),
  count: fc.integer({ min: 0, max: 10 }),
  maxParallel: fc.option(fc.integer({ min: 1, max: 5 }), { nil: undefined }),
  update: fc.constantFrom('start_first' as const, 'stop_first' as const),
  hasVolume: fc.boolean(),
  lost: fc.subarray(hostIds),
  departures: fc.dictionary(fc.constantFrom(...hostIds), departure),
  hasRoom: fc.boolean(),
});

function sketched(sketch: typeof inputs extends fc.Arbitrary<infer T> ? T : never, kind = 'service') {
  const { count, maxParallel, update, hasVolume } = sketch;
  const workload: Workload = workloadOf({
    kind,
    count,
    version: 'v2',
    update,
    ...(maxParallel === undefined ? {} : { maxParallel }),
    template: { volumes: hasVolume ? [{ name: 'data', path: '/data' }] : [] },
  });
  const placed = sketch.jobs.map(({ state, isStopped, ...more }, at) =>
    placedOf(workload, `j${at}`, {
      ...more,
      desired: isStopped ? 'stop' : 'run',
      ...(state === undefined ? {} : { state, isFinal: state === 'done' || state === 'failed', endedAt: now - 1 }),
    }),
  );
  const input: ReconcileInput = {
    placed,
    ended: placed.flatMap(({ status }) => (status?.isFinal === true ? [status] : [])),
    lostHosts: new Set(sketch.lost),
    departures: new Map(Object.entries(sketch.departures)),
    isThere: (hostId) => !sketch.lost.includes(hostId),
    homeOf: (index) => (sketch.hasVolume ? hostIds[index % hostIds.length] : undefined),
    hasRoomFor: () => sketch.hasRoom,
    now,
  };
  return { workload, placed, input };
}

/** `hosts`: those on each of which `count` jobs are wanted; otherwise so many are wanted in all. */
function assertSane(
  workload: Workload,
  placed: readonly PlacedJob[],
  input: ReconcileInput,
  decision: Decision,
  hosts = 1,
): void {
  const { place, stop, release } = decision;
  const slots = new Set(place.map(({ index }) => index));
  assert.equal(slots.size, place.length, 'a slot is placed once');
  assert.ok(place.length <= hosts * workload.count, 'never more placements than jobs are wanted');
  if (workload.count === 0) assert.equal(place.length, 0, 'count 0 places nothing');
  const held = [...(decision.held?.values() ?? [])].reduce((sum, jobs) => sum + jobs, 0);
  assert.ok(place.length + held <= hosts * workload.count);
  const replaced = place.filter(
    ({ why, after }) => (why === 'destructive' || why === 'migrate') && after === undefined,
  );
  assert.ok(replaced.length <= placed.length, 'never more replacements than jobs there are');
  for (const jobs of [stop, release]) {
    assert.equal(new Set(jobs).size, jobs.length);
    for (const job of jobs) assert.ok(placed.includes(job));
  }
  const isEnded = (job: PlacedJob) => job.status?.isFinal === true || input.lostHosts.has(job.hostId);
  for (const job of stop) assert.ok(job.desired === 'run' && !isEnded(job), 'what stops was meant to run');
  for (const job of release) assert.ok(isEnded(job), 'what is released has ended');
}

describe('a decision', () => {
  it('about a service is never too much', () => {
    fc.assert(
      fc.property(inputs, (sketch) => {
        const { workload, placed, input } = sketched(sketch);
        const decision = reconcileService(workload, input);
        assertSane(workload, placed, input, decision);
        const active = placed.filter(
          (job) => job.desired === 'run' && job.status?.isFinal !== true && !input.lostHosts.has(job.hostId),
        );
        const serving = (jobs: readonly PlacedJob[]) => jobs.filter((job) => job.status?.state === 'running').length;
        const isForced = decision.stop.some(({ hostId }) => input.departures.get(hostId)?.isDue === true);
        if (sketch.update === 'start_first' && !sketch.hasVolume && !isForced) {
          const after = serving(active) - serving(decision.stop);
          assert.ok(
            after >= Math.min(serving(active), workload.count),
            'what serves is never less than wanted, or than it was',
          );
        }
      }),
      { numRuns: 2_000, seed: 1 },
    );
  });
  it('about a gang or an ephemeral workload neither', () => {
    fc.assert(
      fc.property(inputs, (sketch) => {
        const gang = sketched(sketch, 'gang');
        assertSane(gang.workload, gang.placed, gang.input, reconcileGang(gang.workload, gang.input));
        const runs = sketched(sketch, 'ephemeral');
        const decision = reconcileEphemeral(runs.workload, runs.input);
        assertSane(runs.workload, runs.placed, runs.input, decision);
        assert.ok(runs.placed.length + decision.place.length <= Math.max(runs.workload.count, runs.placed.length));
      }),
      { numRuns: 1_000, seed: 1 },
    );
  });
  it('about an omni workload is for hosts that are ready, and for none more than it wants of each', () => {
    const hosts = fc.record({
      meant: fc.subarray(hostIds),
      unsuited: fc.subarray(hostIds),
      open: fc.subarray(hostIds),
    });
    fc.assert(
      fc.property(inputs, hosts, (sketch, { meant, unsuited, open }) => {
        const { workload, placed, input } = sketched(sketch, 'omni');
        const isOpen = (hostId: string) => open.includes(hostId);
        const apart = new Set(unsuited.filter((hostId) => !meant.includes(hostId)));
        const decision = reconcileOmni(workload, input, { meant, unsuited: apart, isOpen });
        const ready = meant.filter(isOpen);
        assertSane(workload, placed, input, decision, ready.length);
        for (const { hostId } of decision.place) assert.ok(hostId !== undefined && ready.includes(hostId));
        for (const host of ready) {
          const isCurrent = (job: PlacedJob) =>
            job.hostId === host &&
            job.version === workload.version &&
            job.desired === 'run' &&
            job.status?.isFinal !== true &&
            !input.lostHosts.has(host);
          const present = placed.filter((job) => isCurrent(job) && !decision.stop.includes(job)).length;
          const more = decision.place.filter(({ hostId }) => hostId === host).length;
          assert.ok(present + more <= workload.count, 'never more on a host than are wanted there');
        }
      }),
      { numRuns: 5_000, seed: 1 },
    );
  });
});

type Event =
  | { do: 'change'; count: number; version: string }
  | { do: 'host'; id: string; isThere: boolean }
  | { do: 'drain'; id: string; isOn: boolean; afterMs: number | undefined }
  | { do: 'step'; fails: boolean }
  | { do: 'plan' };

const event: fc.Arbitrary<Event> = fc.oneof(
  fc.record({
    do: fc.constant('change' as const),
    count: fc.integer({ min: 0, max: 6 }),
    version: fc.constantFrom('v1', 'v2', 'v3'),
  }),
  fc.record({ do: fc.constant('host' as const), id: fc.constantFrom(...hostIds), isThere: fc.boolean() }),
  fc.record({
    do: fc.constant('drain' as const),
    id: fc.constantFrom(...hostIds),
    isOn: fc.boolean(),
    afterMs: fc.option(fc.integer({ min: 0, max: 5_000 }), { nil: undefined }),
  }),
  fc.record({ do: fc.constant('step' as const), fails: fc.boolean() }),
  fc.record({ do: fc.constant('plan' as const) }),
);

const kinds = fc.record({
  kind: fc.constantFrom('service', 'omni', 'gang'),
  update: fc.constantFrom('start_first' as const, 'stop_first' as const),
  hasVolume: fc.boolean(),
});
const capacity = { memoryBytes: 10_000 * mebibyte, cpuMillis: 100_000 };

function assertFits(cell: ToyCell): void {
  for (const [hostId, { value }] of cell.hosts) {
    const used = cell.jobsOn(hostId).reduce((sum, { demand }) => sum + demand.memoryBytes, 0);
    assert.ok(used <= value.capacity.memoryBytes, `${hostId} holds more than it has`);
  }
}

describe('planning', () => {
  it('reaches what is wanted, whatever happened before, once nothing more goes wrong', () => {
    fc.assert(
      fc.property(kinds, fc.array(event, { maxLength: 25 }), ({ kind, update, hasVolume }, events) => {
        const cell = new ToyCell().put(hostOf('h1', { capacity }), hostOf('h2', { capacity }));
        const wanted = (count: number, version: string) =>
          workloadOf({
            kind,
            update,
            count,
            version,
            template: { volumes: hasVolume ? [{ name: 'data', path: '/d' }] : [] },
          });
        cell.put(wanted(3, 'v1'));
        for (const one of events) {
          cell.now += 500;
          if (one.do === 'change') cell.put(wanted(one.count, one.version));
          else if (one.do === 'plan') cell.run('web');
          else if (one.do === 'step') cell.step(() => (one.fails ? 'failed' : 'running'));
          else if (one.do === 'host') {
            cell.lostHosts = new Set([...cell.lostHosts].filter((id) => id !== one.id));
            if (one.isThere) cell.put(hostOf(one.id, { capacity }));
            else cell.lose(one.id);
          } else {
            const { afterMs } = one;
            const deadline = afterMs === undefined ? {} : { deadlineAt: cell.now + afterMs };
            if (one.isOn)
              cell.settings.set(one.id, {
                cordoned: false,
                tags: {},
                drain: { startedAt: cell.now, maxParallel: 1, ...deadline },
              });
            else cell.settings.delete(one.id);
          }
          assertFits(cell);
        }
        // Nothing more goes wrong from here on, and the hosts with data are back.
        cell.settings.clear();
        for (const id of hostIds) cell.put(hostOf(id, { capacity }));
        cell.lostHosts = new Set();
        let isAtRest = false;
        for (let round = 0; round < 100 && !isAtRest; round += 1) {
          cell.now += 61_000;
          isAtRest = cell.step() === 0 && cell.run('web').hosts.size === 0;
          assertFits(cell);
        }
        assert.ok(isAtRest, 'it never came to rest');
        const { count, version } = cell.workload('web')?.value ?? { count: -1, version: '' };
        const jobs = cell.jobsOf('web');
        assert.ok(
          jobs.every((job) => job.version === version && job.desired === 'run' && job.status?.state === 'running'),
        );
        assert.equal(jobs.length, kind === 'omni' ? count * hostIds.length : count);
        assert.equal(new Set(jobs.map(({ index }) => index)).size, jobs.length, 'each slot has one job');
      }),
      { numRuns: 400, seed: 1 },
    );
  });
});
