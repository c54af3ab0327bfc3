/** What is swept away, and what is not. */
import { FlynnError } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { storeWith } from '@flynn/store/store-with';
import { openTestStore } from '@flynn/store/testing';
import type { Store } from '@flynn/store/store';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CellSweeper } from './cell-sweeper.ts';
import { cellKeys, cellPrefix } from './cell.ts';
import { SchedulerCore } from './core.ts';
import { evaluationWrite, makeEvaluation, workloadChange, workloadRemoval } from './evaluations.ts';
import { hostOf, hostPut, placedOf, statusOf, workloadInputOf, workloadOf } from './testing.ts';

const hourMs = 3_600_000;
let ids = 0;
const newId = () => `id${(ids += 1)}`;
const { signal } = new AbortController();

async function sweeperOf(store: Store) {
  const core = new SchedulerCore({ id: 'h1', newId, random: () => 0.5, tell: () => undefined });
  const read = async () => {
    const { entries, revision } = await store.list(cellPrefix);
    core.fold({ revision, changes: entries.map((entry) => ({ type: 'put', entry })) }, 0);
  };
  await read();
  return { core, read, sweeper: new CellSweeper({ store, core, log: silentLogger() }) };
}

const keysOf = async (store: Store, prefix: string) =>
  (await store.list(prefix)).entries.map(({ key }) => key.slice(prefix.length));

test('templates that no workload and no job names are removed, the others stay', async () => {
  await using store = openTestStore();
  const at = { now: 0, newId };
  const job = { id: 'h1-a', index: 0, desired: 'run', createdAt: 0 };
  const { demand } = workloadOf();
  const group = { workloadId: 'web', version: 'v2', demand, singleton: false, jobs: [job] };
  for (const version of ['v1', 'v2', 'v3'])
    await store.transact({ then: workloadChange(workloadInputOf({ version }), at) });
  await store.transact({ then: workloadChange(workloadInputOf({ id: 'gone' }), at) });
  await store.transact({
    then: [
      hostPut(hostOf('h1')),
      ...workloadRemoval('gone', at),
      { put: cellKeys.lastPlan('gone'), value: '{"planId":"p"}' },
      { put: cellKeys.assignment('h1', 'p'), value: JSON.stringify({ planId: 'p', groups: [group] }) },
    ],
  });
  const { sweeper } = await sweeperOf(store);
  await sweeper.sweep(0, signal);
  assert.deepEqual(await keysOf(store, cellKeys.templates), ['web/v2', 'web/v3']);
  assert.deepEqual(await keysOf(store, cellKeys.plans), []);
});

test('a template that is wanted again while it is swept stays', async () => {
  await using store = openTestStore();
  const at = { now: 0, newId };
  await store.transact({ then: [hostPut(hostOf('h1'))] });
  for (const version of ['v1', 'v2']) await store.transact({ then: workloadChange(workloadInputOf({ version }), at) });
  const { sweeper } = await sweeperOf(store);
  // The sweeper does not know of it yet.
  await store.transact({ then: workloadChange(workloadInputOf({ version: 'v1' }), at) });
  await sweeper.sweep(0, signal);
  assert.deepEqual(await keysOf(store, cellKeys.templates), ['web/v1', 'web/v2']);
});

test('templates stay while something that cannot be read may name them', async () => {
  await using store = openTestStore();
  const at = { now: 0, newId };
  for (const version of ['v1', 'v2']) await store.transact({ then: workloadChange(workloadInputOf({ version }), at) });
  const odd = { put: cellKeys.assignment('h1', 'p'), value: '{"planId":"p","groups":"as of a version to come"}' };
  await store.transact({ then: [hostPut(hostOf('h1')), odd] });
  const { core, sweeper } = await sweeperOf(store);
  await sweeper.sweep(0, signal);
  assert.deepEqual(await keysOf(store, cellKeys.templates), ['web/v1', 'web/v2']);
  const { revision } = await store.transact({ then: [{ delete: odd.put }] });
  core.fold({ revision, changes: [{ type: 'delete', key: odd.put, modRevision: revision }] }, 0);
  await sweeper.sweep(60_000, signal);
  assert.deepEqual(await keysOf(store, cellKeys.templates), ['web/v2']);
});

test('evaluations that ended an hour ago are removed, younger and open ones stay', async () => {
  await using store = openTestStore();
  const made = (id: string, createdAt: number) => makeEvaluation('web', 'repair', { now: createdAt, newId: () => id });
  const now = 10 * hourMs;
  await store.transact({
    then: [
      hostPut(hostOf('h1')),
      evaluationWrite({ ...made('old', 0), state: 'complete', updatedAt: now - hourMs - 1 }),
      evaluationWrite({ ...made('young', 0), state: 'complete', updatedAt: now - hourMs + 1 }),
      evaluationWrite({ ...made('open', 0), state: 'blocked', reason: 'memory' }),
    ],
  });
  const { sweeper } = await sweeperOf(store);
  await sweeper.sweep(now, signal);
  assert.deepEqual(await keysOf(store, cellKeys.evaluations), ['open', 'young']);
});

test('statuses of a host that never came back are removed after a day', async () => {
  await using store = openTestStore();
  const statuses = ['h1', 'h2'].map((hostId) => {
    const status = statusOf(placedOf(workloadOf(), 'a', { hostId }), 'running');
    return { put: cellKeys.jobStatus(hostId, status.id), value: JSON.stringify(status) };
  });
  await store.transact({ then: [hostPut(hostOf('h1')), ...statuses] });
  const { sweeper } = await sweeperOf(store);
  await sweeper.sweep(24 * hourMs - 1, signal);
  assert.deepEqual(await keysOf(store, cellKeys.status), ['h1/h1-a', 'h2/h2-a']);
  await sweeper.sweep(24 * hourMs + 1, signal);
  assert.deepEqual(await keysOf(store, cellKeys.status), ['h1/h1-a']);
});

test('a status and an evaluation that nobody can read keep nothing from being swept', async () => {
  await using store = openTestStore();
  const at = { now: 0, newId };
  const status = statusOf(placedOf(workloadOf(), 'a', { hostId: 'h2' }), 'done');
  await store.transact({
    then: [
      hostPut(hostOf('h1')),
      { put: cellKeys.jobStatus('h2', 'h2-a'), value: JSON.stringify(status) },
      { put: cellKeys.jobStatus('h2', 'h2-b'), value: JSON.stringify({ ...status, state: 'hibernating' }) },
      { put: cellKeys.jobStatus('h3', 'h3-a'), value: 'no JSON' },
    ],
  });
  for (const version of ['v1', 'v2']) await store.transact({ then: workloadChange(workloadInputOf({ version }), at) });
  const { sweeper } = await sweeperOf(store);
  // The scheduler saw it in a state that it could read.
  await store.transact({ then: [{ put: cellKeys.evaluation('odd'), value: '{}' }] });
  await sweeper.sweep(24 * hourMs - 1, signal);
  assert.deepEqual(await keysOf(store, cellKeys.templates), ['web/v2']);
  assert.deepEqual(await keysOf(store, cellKeys.status), ['h2/h2-a', 'h2/h2-b', 'h3/h3-a']);
  await sweeper.sweep(24 * hourMs + 1, signal);
  // Of that one nothing is known but that its host was gone when it was first looked for.
  assert.deepEqual(await keysOf(store, cellKeys.status), ['h3/h3-a']);
  await sweeper.sweep(48 * hourMs, signal);
  assert.deepEqual(await keysOf(store, cellKeys.status), []);
});

test('an evaluation that nobody can read, there from the start, keeps no other from being swept and goes when it is old', async () => {
  await using store = openTestStore();
  const now = 10 * hourMs;
  const made = (id: string) => makeEvaluation('web', 'repair', { now: 0, newId: () => id });
  const unreadable = (id: string, more: object) => ({
    put: cellKeys.evaluation(id),
    value: JSON.stringify({ ...made(id), cause: 'of_a_version_to_come', ...more }),
  });
  await store.transact({
    then: [
      hostPut(hostOf('h1')),
      evaluationWrite({ ...made('old'), state: 'complete' }),
      unreadable('ended', { state: 'failed', updatedAt: now - hourMs - 1 }),
      unreadable('young', { state: 'failed', updatedAt: now - hourMs + 1 }),
      unreadable('open', { state: 'blocked' }),
      unreadable('paused', { state: 'paused' }),
      { put: cellKeys.evaluation('text'), value: 'no JSON' },
    ],
  });
  const { sweeper } = await sweeperOf(store);
  await sweeper.sweep(now, signal);
  assert.deepEqual(await keysOf(store, cellKeys.evaluations), ['open', 'paused', 'text', 'young']);
});

test('statuses that nobody can read stay a day when their host is away, by what they tell of it or by when it was missed', async () => {
  await using store = openTestStore();
  const now = Date.now();
  const put = (hostId: string, text: string) => ({ put: cellKeys.jobStatus(hostId, `${hostId}-a`), value: text });
  const odd = (more: object) => JSON.stringify({ ...statusOf(placedOf(workloadOf(), 'a'), 'running'), ...more });
  await store.transact({
    then: [
      hostPut(hostOf('h1')),
      put('h2', odd({ state: 'hibernating', createdAt: now - 30 * hourMs, startedAt: now - 1_000 })),
      put('h3', odd({ state: 'hibernating', createdAt: now - 30 * hourMs })),
      put('h4', '{"createdAt":"yesterday"}'),
    ],
  });
  const { core, read, sweeper } = await sweeperOf(store);
  await sweeper.sweep(now, signal);
  assert.deepEqual(await keysOf(store, cellKeys.status), ['h2/h2-a', 'h4/h4-a']);
  // Back for a while: its day begins once more.
  await store.transact({ then: [hostPut(hostOf('h4'))] });
  await read();
  await sweeper.sweep(now + hourMs, signal);
  const { revision } = await store.transact({ then: [{ delete: cellKeys.host('h4') }] });
  core.fold({ revision, changes: [{ type: 'delete', key: cellKeys.host('h4'), modRevision: revision }] }, 0);
  await sweeper.sweep(now + 2 * hourMs, signal);
  await sweeper.sweep(now + 25 * hourMs, signal);
  assert.deepEqual(await keysOf(store, cellKeys.status), ['h4/h4-a']);
  await sweeper.sweep(now + 26 * hourMs, signal);
  assert.deepEqual(await keysOf(store, cellKeys.status), []);
});

test('what no event told of is looked for again soon where that failed', async () => {
  await using store = openTestStore();
  let isFailing = true;
  const shaky = storeWith(store, {
    async list(prefix, options) {
      if (isFailing && prefix === cellKeys.templates) throw new FlynnError('internal', 'a page that nobody can read');
      return store.list(prefix, options);
    },
  });
  await store.transact({ then: [hostPut(hostOf('h1'))] });
  await store.transact({ then: [{ put: cellKeys.template('gone', 'v1'), value: '{}' }] });
  const { sweeper } = await sweeperOf(shaky);
  await sweeper.sweep(0, signal);
  isFailing = false;
  await sweeper.sweep(60_000, signal);
  assert.deepEqual(await keysOf(store, cellKeys.templates), []);
});
