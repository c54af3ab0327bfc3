/** Which claims are put right, and which are left alone. */
import { FlynnError } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { openTestStore } from '@flynn/store/testing';
import { storeWith } from '@flynn/store/store-with';
import type { Operation, Store } from '@flynn/store/store';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ClaimMender } from './claim-mender.ts';
import { cellKeys, cellPrefix, claimSchema } from './cell.ts';
import { CellColumns } from './columns/cell-columns.ts';
import { hostOf, hostPut, mebibyte, workloadOf } from './testing.ts';

const { signal } = new AbortController();
const { demand } = workloadOf({ template: { hostNetwork: true, ports: [{ port: 514 }] } });
const right = { memoryBytes: 200 * mebibyte, cpuMillis: 200, jobs: 2, ports: { 514: { family: 'web', jobs: 2 } } };

function assignmentPut(hostId: string, planId: string, jobIds: readonly string[]): Operation {
  const jobs = jobIds.map((id, index) => ({ id: `${hostId}-${id}`, index, desired: 'run', createdAt: 0 }));
  const groups = [{ workloadId: 'web', version: 'v1', demand, singleton: false, jobs }];
  return { put: cellKeys.assignment(hostId, planId), value: JSON.stringify({ planId, groups }) };
}

const claimPut = (hostId: string, claim: object): Operation => ({
  put: cellKeys.claim(hostId),
  value: JSON.stringify({ planId: 'p', ...claim }),
});

async function menderOf(store: Store) {
  const { entries, revision } = await store.list(cellPrefix);
  const columns = new CellColumns({ onFault: () => undefined });
  for (const entry of entries) columns.fold({ type: 'put', entry });
  columns.advance(revision);
  let ids = 0;
  return new ClaimMender({ store, columns, newId: () => `mend${(ids += 1)}`, log: silentLogger() });
}

async function claimsOf(store: Store) {
  const { entries } = await store.list(cellKeys.claims);
  return entries.map(({ key, value }) => [key.slice(cellKeys.claims.length), claimSchema.parse(JSON.parse(value))]);
}

test('a claim below nothing, one that is too much, one that is no JSON and one that is missing become what the jobs come to', async () => {
  await using store = openTestStore();
  const hosts = ['h1', 'h2', 'h3', 'h4', 'h5'];
  await store.transact({
    then: [
      ...hosts.flatMap((id) => [hostPut(hostOf(id)), assignmentPut(id, 'a', ['1']), assignmentPut(id, 'b', ['2'])]),
      claimPut('h1', { ...right, memoryBytes: -1, jobs: -1 }),
      claimPut('h2', { ...right, memoryBytes: 300 * mebibyte }),
      { put: cellKeys.claim('h3'), value: 'no JSON' },
      claimPut('h5', right),
    ],
  });
  await (await menderOf(store)).mend(signal);
  assert.deepEqual(await claimsOf(store), [
    ['h1', { planId: 'mend1', ...right }],
    ['h2', { planId: 'mend3', ...right }],
    ['h3', { planId: 'mend2', ...right }],
    ['h4', { planId: 'mend4', ...right }],
    ['h5', { planId: 'p', ...right }],
  ]);
});

test('of a host that is gone the claim goes with its last job', async () => {
  await using store = openTestStore();
  await store.transact({
    then: [claimPut('h1', { ...right, jobs: -2 }), claimPut('h2', right), assignmentPut('h2', 'a', ['1'])],
  });
  await (await menderOf(store)).mend(signal);
  const half = { memoryBytes: 100 * mebibyte, cpuMillis: 100, jobs: 1, ports: { 514: { family: 'web', jobs: 1 } } };
  assert.deepEqual(await claimsOf(store), [['h2', { planId: 'mend2', ...half }]]);
});

test('a claim stays as it is where an assignment cannot be read, and where somebody else was faster', async () => {
  await using store = openTestStore();
  await store.transact({
    then: [
      hostPut(hostOf('h1')),
      hostPut(hostOf('h2')),
      assignmentPut('h1', 'a', ['1']),
      { put: cellKeys.assignment('h1', 'b'), value: '{}' },
      claimPut('h1', right),
      assignmentPut('h2', 'a', ['1', '2']),
      claimPut('h2', { ...right, jobs: 7 }),
    ],
  });
  const raced = storeWith(store, {
    async transact(...args) {
      // Just before the claim is written.
      if ((args[0].compare ?? []).length > 0) {
        await store.transact({
          then: [assignmentPut('h2', 'a', ['1', '2']), claimPut('h2', { ...right, planId: 'q' })],
        });
      }
      return store.transact(...args);
    },
  });
  await (await menderOf(raced)).mend(signal);
  assert.deepEqual(await claimsOf(store), [
    ['h1', { planId: 'p', ...right }],
    ['h2', { planId: 'q', ...right }],
  ]);
});

test('a host whose claims cannot be mended keeps no other from it, and the store being away is told at once', async () => {
  await using store = openTestStore();
  await store.transact({
    then: [
      ...['h1', 'h2'].flatMap((id) => [hostPut(hostOf(id)), assignmentPut(id, 'a', ['1', '2'])]),
      claimPut('h1', { ...right, jobs: 7 }),
      claimPut('h2', { ...right, jobs: 7 }),
    ],
  });
  let code: 'exhausted' | 'unavailable' = 'exhausted';
  const shaky = storeWith(store, {
    async transact(...args) {
      if (JSON.stringify(args[0]).includes(cellKeys.claim('h1'))) throw new FlynnError(code, 'not this one');
      return store.transact(...args);
    },
  });
  const mender = await menderOf(shaky);
  await mender.mend(signal);
  assert.deepEqual(await claimsOf(store), [
    ['h1', { planId: 'p', ...right, jobs: 7 }],
    ['h2', { planId: 'mend1', ...right }],
  ]);
  code = 'unavailable';
  await assert.rejects(mender.mend(signal), { code });
});
