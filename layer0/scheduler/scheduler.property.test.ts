/** Random histories: whatever happens in whatever order, nothing wrong is ever committed, and in the end all is as asked. */
import { openTestStore } from '@flynn/store/testing';
import type { Store } from '@flynn/store/store';
import * as fc from 'fast-check';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cellKeys } from './cell.ts';
import type { WorkloadInput } from './cell.ts';
import type { Evaluation } from './evaluation.ts';
import type { CellColumns } from './columns/cell-columns.ts';
import { Committer } from './committer.ts';
import { advance, makeEvaluation, workloadChange, workloadRemoval } from './evaluations.ts';
import { findViolations } from './invariants.ts';
import { Ledger } from './ledger.ts';
import { HostTable } from './placement/host-table.ts';
import { schedule } from './schedulers/scheduler.ts';
import { hostOf, hostPut, mebibyte, readCell, stepHost, wellBehaved, workloadInputOf } from './testing.ts';
import type { Behaviour } from './testing.ts';

const hostIds = ['h1', 'h2', 'h3', 'h4'];
const kinds = { web: 'service', db: 'service', log: 'omni', run: 'ephemeral' } as const;
const workloadIds = ['web', 'db', 'log', 'run'] as const;

type Step =
  | { do: 'change'; id: (typeof workloadIds)[number]; count: number; version: string }
  | { do: 'remove'; id: (typeof workloadIds)[number] }
  | { do: 'host'; id: string; isThere: boolean }
  | { do: 'agent'; id: string; fails: boolean }
  | { do: 'look' }
  /** `isFresh`: by another scheduler, that sees the world as it is. */
  | { do: 'plan'; ids: string[]; isFresh: boolean }
  /** Both planned on the same view, committed one after the other. */
  | { do: 'race'; count: number; version: string }
  /** Runs that ended are let go, and somebody else comes first on one of their hosts. */
  | { do: 'conflict'; count: number; hostId: string }
  | { do: 'rest' };

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    do: fc.constant('change' as const),
    id: fc.constantFrom(...workloadIds),
    count: fc.integer({ min: 0, max: 6 }),
    version: fc.constantFrom('v1', 'v2', 'v3'),
  }),
  fc.record({ do: fc.constant('remove' as const), id: fc.constantFrom(...workloadIds) }),
  fc.record({ do: fc.constant('host' as const), id: fc.constantFrom(...hostIds), isThere: fc.boolean() }),
  fc.record({ do: fc.constant('agent' as const), id: fc.constantFrom(...hostIds), fails: fc.boolean() }),
  fc.record({ do: fc.constant('look' as const) }),
  fc.record({ do: fc.constant('rest' as const) }),
  fc.record({
    do: fc.constant('race' as const),
    count: fc.integer({ min: 1, max: 4 }),
    version: fc.constantFrom('v1', 'v2'),
  }),
  fc.record({
    do: fc.constant('conflict' as const),
    count: fc.integer({ min: 1, max: 6 }),
    hostId: fc.constantFrom('h1', 'h2'),
  }),
  fc.record({
    do: fc.constant('plan' as const),
    ids: fc.uniqueArray(fc.constantFrom(...workloadIds), { minLength: 1 }),
    isFresh: fc.boolean(),
  }),
);

function wanted(id: (typeof workloadIds)[number], count: number, version: string): WorkloadInput {
  return workloadInputOf({
    id,
    kind: kinds[id],
    version,
    count,
    update: id === 'db' ? 'stop_first' : 'start_first',
    template: {
      resources: { memoryBytes: 180 * mebibyte, cpuMillis: 100 },
      hostNetwork: id === 'log',
      ports: id === 'log' ? [{ port: 514 }] : [],
    },
  });
}

/** A world with one scheduler whose view of it may be old. */
class World {
  readonly store: Store;
  view: CellColumns;
  now = 1_000_000;
  #ids = 0;
  readonly newId = () => `n${(this.#ids += 1)}`;
  #drawn = 0.3;
  /** Neither always the same host nor another one every time the test runs. */
  readonly random = () => (this.#drawn = (this.#drawn + 0.38) % 1);
  readonly #runs = new Set<string>();
  /** How many more runs may begin. */
  #runsWanted = 0;

  constructor(store: Store, view: CellColumns) {
    this.store = store;
    this.view = view;
  }

  async check(before?: CellColumns): Promise<CellColumns> {
    const cell = await readCell(this.store);
    assert.deepEqual(findViolations(cell), []);
    if (before !== undefined) assertAvailability(before, cell);
    for (const { id } of cell.jobsOf('run')) {
      if (this.#runs.has(id)) continue;
      this.#runs.add(id);
      this.#runsWanted -= 1;
    }
    assert.ok(this.#runsWanted >= 0, 'a run began once more');
    return cell;
  }

  async plan(ids: readonly string[], cell: CellColumns): Promise<'nothing' | 'committed' | 'refused'> {
    const ledger = new Ledger(new HostTable());
    for (const { value } of cell.hosts.values()) ledger.putHost(value, cell.settings.get(value.id));
    for (const [hostId, { value, modRevision }] of cell.claims) {
      ledger.observe(hostId, { claim: value, modRevision, seenAt: cell.revision });
    }
    const lostHosts = new Set([...cell.hostsWithJobs()].filter((id) => !cell.hosts.has(id)));
    const context = { now: this.now, newId: this.newId, random: this.random, lostHosts, table: ledger.table };
    const committer = new Committer({ columns: cell, ledger, newId: this.newId, lingerMs: 0 });
    for (const id of ids) {
      committer.submit(schedule(this.nextOf(id, cell), cell, context), this.now);
    }
    const before = await readCell(this.store);
    const states: string[] = [];
    for (let batch = committer.next(this.now); batch !== undefined; batch = committer.next(this.now)) {
      committer.settle(batch, await this.store.transact(batch.transaction));
    }
    states.push(...committer.takeSettled().map(({ state }) => state));
    await this.check(before);
    if (states.includes('refused')) return 'refused';
    return states.includes('committed') ? 'committed' : 'nothing';
  }

  /** As a broker would hand it out. */
  nextOf(id: string, cell: CellColumns): Evaluation {
    const open = cell.evaluationsOf(id).map(({ value }) => value);
    const pending = open.findLast(({ state }) => state === 'pending');
    const blocked = open.findLast(({ state }) => state === 'blocked');
    if (pending !== undefined) return pending;
    return blocked === undefined ? makeEvaluation(id, 'health', this) : advance(blocked, 'pending', this.now);
  }

  async change(id: (typeof workloadIds)[number], count: number, version: string): Promise<void> {
    await this.store.transact({ then: workloadChange(wanted(id, count, version), this) });
    if (id === 'run') this.#runsWanted = count;
  }

  async apply(step: Step): Promise<void> {
    this.now += 1_000;
    switch (step.do) {
      case 'change':
        await this.change(step.id, step.count, step.version);
        break;
      case 'remove':
        await this.store.transact({ then: workloadRemoval(step.id, this) });
        break;
      case 'host':
        await this.store.transact({
          then: [step.isThere ? hostPut(hostOf(step.id)) : { delete: cellKeys.host(step.id) }],
        });
        break;
      case 'agent':
        await stepHost(this.store, step.id, step.fails ? failing : wellBehaved, this);
        break;
      case 'look':
        this.view = await readCell(this.store);
        break;
      case 'plan':
        await this.plan(step.ids, step.isFresh ? await readCell(this.store) : this.view);
        break;
      case 'race': {
        const both = (['web', 'db'] as const).map((id) => wanted(id, step.count, step.version));
        await this.store.transact({ then: both.flatMap((one) => workloadChange(one, this)) });
        const view = await readCell(this.store);
        assert.notEqual(await this.plan(['web'], view), 'refused');
        await this.plan(['db'], view);
        break;
      }
      case 'conflict': {
        await this.change('run', step.count, 'v1');
        await this.plan(['run'], await readCell(this.store));
        for (const id of hostIds) await stepHost(this.store, id, failing, this);
        const view = await readCell(this.store);
        const claim = view.claims.get(step.hostId)?.value;
        if (claim === undefined) break;
        const value = JSON.stringify({ ...claim, planId: this.newId() });
        await this.store.transact({ then: [{ put: cellKeys.claim(step.hostId), value }] });
        await this.plan(['run'], view);
        break;
      }
      case 'rest':
        for (let round = 0; round < 4; round += 1) await this.round();
        break;
    }
    await this.check();
  }

  /** Hosts do what they are told, schedulers see the world as it is. Returns how much happened. */
  async round(): Promise<number> {
    this.now += 61_000;
    let changes = 0;
    for (const id of hostIds) changes += await stepHost(this.store, id, wellBehaved, this);
    for (const id of workloadIds) {
      const state = await this.plan([id], await readCell(this.store));
      assert.notEqual(state, 'refused', 'a plan on the present state is never refused');
      if (state === 'committed') changes += 1;
    }
    return changes;
  }

  /** Nothing more goes wrong from here on. */
  async settle(): Promise<CellColumns> {
    for (let round = 0; round < 200; round += 1) {
      if ((await this.round()) === 0) return this.check();
    }
    throw new Error('it never came to rest');
  }
}

const failing: Behaviour = ({ desired, status }) =>
  desired === 'stop' ? 'done' : status?.state === 'running' ? 'crashed' : 'failed';

/** One commit never tells so many running jobs of a service to stop that fewer than asked for, or than there were, are left. */
function assertAvailability(before: CellColumns, after: CellColumns): void {
  const workload = after.workload('web')?.value;
  if (workload === undefined) return;
  const serving = (cell: CellColumns) =>
    cell
      .jobsOf('web')
      .filter(
        ({ desired, hostId, status }) => desired === 'run' && status?.state === 'running' && cell.hosts.has(hostId),
      ).length;
  assert.ok(serving(after) >= Math.min(serving(before), workload.count), 'an update took away running jobs');
}

test('nothing wrong is ever committed, and in the end every workload has what it asks for', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async (steps) => {
      await using store = openTestStore();
      const world = new World(store, await readCell(store));
      await store.transact({ then: [hostPut(hostOf('h1')), hostPut(hostOf('h2'))] });
      for (const one of steps) await world.apply(one);
      await store.transact({ then: [hostPut(hostOf('h1'))] });
      const cell = await world.settle();

      for (const id of workloadIds) {
        const workload = cell.workload(id)?.value;
        const jobs = cell.jobsOf(id);
        assert.ok(
          jobs.every(({ desired }) => desired === 'run'),
          `${id} has jobs being stopped`,
        );
        assert.ok(
          jobs.every(({ hostId }) => cell.hosts.has(hostId)),
          `${id} has jobs on lost hosts`,
        );
        const open = cell.evaluationsOf(id).map(({ value }) => value);
        assert.ok(open.length <= 1 || open.some(({ state }) => state === 'pending'), `${id} has several that wait`);
        if (open.length > 0) continue;
        if (workload === undefined || workload.count === 0) assert.equal(jobs.length, 0, `${id} is not wanted`);
        else if (workload.kind === 'omni')
          for (const hostId of cell.hosts.keys())
            assert.equal(jobs.filter((job) => job.hostId === hostId).length, workload.count, `${id} on ${hostId}`);
        else assert.equal(jobs.length, workload.count, `${id} has another count`);
        if (workload?.kind !== 'ephemeral')
          assert.ok(
            jobs.every(({ version }) => version === workload?.version),
            `${id} has an old version`,
          );
        if (id === 'db')
          assert.deepEqual(
            jobs.map(({ index }) => index),
            jobs.map((_, at) => at),
          );
      }
    }),
    { numRuns: 120, seed: 1 },
  );
});
