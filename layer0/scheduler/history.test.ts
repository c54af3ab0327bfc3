/** The checker itself: it says nothing of a sound history, and finds each kind of wrong where it happened. */
import { newId } from '@flynn/kit/ids';
import { openTestStore } from '@flynn/store/testing';
import type { Operation } from '@flynn/store/store';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cellKeys } from './cell.ts';
import type { Assignment, Claim } from './cell.ts';
import { evaluationWrite, makeEvaluation, workloadChange } from './evaluations.ts';
import { checkHistory } from './history.ts';
import { hostOf, hostPut, mebibyte, placedOf, statusOf, workloadInputOf, workloadOf } from './testing.ts';

const { signal } = new AbortController();
const workload = workloadOf({ id: 'db', singleton: true });
const put = (key: string, value: unknown): Operation => ({ put: key, value: JSON.stringify(value) });
const claimOf = (jobs: number, more: Partial<Claim> = {}): Claim => ({
  planId: 'p',
  memoryBytes: jobs * 100 * mebibyte,
  cpuMillis: jobs * 100,
  jobs,
  ports: {},
  ...more,
});

function assignmentOf(hostId: string, ids: readonly string[], planId = 'p'): Assignment {
  const { id: workloadId, version, demand } = workload;
  const jobs = ids.map((id, index) => ({ id: `${hostId}-${id}`, index, desired: 'run' as const, createdAt: 0 }));
  return { planId, groups: [{ workloadId, version, demand, singleton: true, jobs }] };
}

const assigned = (hostId: string, ids: readonly string[]): Operation[] => [
  put(cellKeys.assignment(hostId, 'p'), assignmentOf(hostId, ids)),
  put(cellKeys.claim(hostId), claimOf(ids.length)),
];

/** Each in a revision of its own, after two hosts and a workload; what is told of the last one. */
async function violationsOf(...steps: Operation[][]): Promise<string[]> {
  await using store = openTestStore();
  const begin = [hostPut(hostOf('h1')), hostPut(hostOf('h2'))];
  const input = workloadInputOf({ id: 'db', singleton: true });
  const { revision: from } = await store.transact({ then: [...begin, ...workloadChange(input, { now: 0, newId })] });
  let last = from;
  for (const then of steps) ({ revision: last } = await store.transact({ then }));
  // What is not the cell's changes nothing, and the check comes to its end all the same.
  await store.transact({ then: [put('/elsewhere', 1)] });
  const { violations, revisions } = await checkHistory(store, { from, signal });
  assert.equal(revisions, steps.length + 1);
  assert.ok(violations.every(({ revision }) => revision === last));
  return violations.map(({ what }) => what);
}

test('a history in which all agrees has no violations', async () => {
  const job = placedOf(workload, 'a');
  const running = put(cellKeys.jobStatus('h1', job.id), statusOf(job, 'running'));
  const gone: Operation[] = [{ delete: cellKeys.assignment('h1', 'p') }, put(cellKeys.claim('h1'), claimOf(0))];
  assert.deepEqual(await violationsOf(assigned('h1', ['a']), [running], gone), []);
});

test('claims beyond what a host has are found', async () => {
  const eleven = Array.from({ length: 11 }, (_, at) => `a${at}`);
  const [what] = await violationsOf(assigned('h1', eleven));
  assert.match(what ?? '', /^h1 has 1048576000 bytes of memory and 1153433600 are claimed$/);
});

test('a claim that is not the sum of the jobs is found, and jobs without a claim', async () => {
  const [, claim] = assigned('h1', ['a']);
  assert.ok(claim !== undefined);
  assert.match((await violationsOf([claim]))[0] ?? '', /h1 claims 1 jobs and has 0/);
  const [assignment] = assigned('h1', ['a']);
  assert.ok(assignment !== undefined);
  assert.match((await violationsOf([assignment]))[0] ?? '', /h1 has 1 jobs and no claim/);
});

test('two jobs of a singleton slot are found, unless the host of one is away', async () => {
  const both = [assigned('h1', ['a']), assigned('h2', ['b'])];
  assert.match((await violationsOf(...both))[0] ?? '', /slot 0 of db has the jobs h1-a and h2-b|h2-b and h1-a/);
  assert.deepEqual(
    await violationsOf(assigned('h1', ['a']), [{ delete: cellKeys.host('h1') }], assigned('h2', ['b'])),
    [],
  );
});

test('a status of a stranger, and an evaluation that ended twice, are found', async () => {
  const stranger = statusOf(placedOf(workload, 'a', { hostId: 'h2' }), 'running');
  assert.match((await violationsOf([put(cellKeys.jobStatus('h1', 'h1-a'), stranger)]))[0] ?? '', /is about h2-a on h2/);
  const evaluation = makeEvaluation('db', 'repair', { now: 0, newId: () => 'e' });
  const complete = evaluationWrite({ ...evaluation, state: 'complete' });
  const cancelled = evaluationWrite({ ...evaluation, state: 'cancelled' });
  assert.deepEqual(await violationsOf([complete], [cancelled]), ['evaluation e was complete and became cancelled']);
  const mute = evaluationWrite({ ...evaluation, state: 'failed' });
  assert.deepEqual(await violationsOf([mute]), ['evaluation e is failed and does not say why']);
});
