import assert from 'node:assert/strict';
import { test } from 'node:test';
import { tokens } from '../access/api.ts';
import { userType } from '../access/resources.ts';
import { auditRoot } from '../audit/trail.ts';
import { startTestController } from '../testing.ts';
import { forgetOld } from './forgetting.ts';

const dayMs = 86_400_000;

test('a clock that leaps ahead has nothing forgotten before it has gone on for a day', async () => {
  await using world = await startTestController({ hosts: 0, hasWorker: false });
  const { client, store } = world;
  await client.call(tokens.create, { body: { name: 'brief', expiresInMs: dayMs } });
  await store.transact({ then: [{ put: 'seat', value: '1' }] });
  const epoch = { key: 'seat', modRevision: (await store.get('seat'))?.modRevision ?? 0 };
  const nowMs = Date.now();
  const aheadMs = nowMs + 200 * dayMs;
  const leftAt = async (atMs: number): Promise<{ tokens: number; hasTrail: boolean }> => {
    await forgetOld({ ...world.deps, now: () => atMs }, { epoch, signal: AbortSignal.timeout(60_000) });
    const { length } = await client.call(tokens.list, {});
    return { tokens: length, hasTrail: (await store.list(auditRoot)).entries.length > 0 };
  };
  const note = (value: object) =>
    store.transact({ then: [{ put: '/flynn/collection', value: JSON.stringify(value) }] });
  const all = { tokens: 1, hasTrail: true };
  await note({ begunMs: nowMs });
  assert.deepEqual(await leftAt(aheadMs), all);
  await note({ begunMs: nowMs, aheadMs });
  assert.deepEqual(await leftAt(aheadMs + dayMs - 1), all);
  assert.deepEqual(await leftAt(aheadMs + dayMs), { tokens: 0, hasTrail: false });
});

test('keys of users of a version before have their days also where the cluster was off for longer than these', async () => {
  await using world = await startTestController({ hosts: 0, hasWorker: false });
  const { store, resources } = world.deps;
  const signal = AbortSignal.timeout(60_000);
  await store.transact({ then: [{ put: 'seat', value: '1' }] });
  const epoch = { key: 'seat', modRevision: (await store.get('seat'))?.modRevision ?? 0 };
  const identity = { issuer: 'https://id.example.com', subject: 's' };
  const { id } = await resources.create(userType, { spec: { name: 'ada', identity } }, { signal });
  const nowMs = Date.now();
  const note = { begunMs: nowMs - 31 * dayMs };
  await store.transact({ then: [{ put: '/flynn/collection', value: JSON.stringify(note) }] });
  await forgetOld({ ...world.deps, now: () => nowMs }, { epoch, signal });
  const { status } = await resources.get(userType, id, { signal });
  assert.equal(status.lastLoginAt, new Date(nowMs).toISOString());
});
