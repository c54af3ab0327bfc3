import assert from 'node:assert/strict';
import { test } from 'node:test';
import { appliances } from '@flynn/appliances/appliances';
import { waitFor } from '@flynn/kit/retry';
import { formations } from '../api.ts';
import { providers, resources } from '../providers/api.ts';
import { appType } from '../resources.ts';
import { startTestController } from '../testing.ts';
import { datastoreCheck, memberFindings } from './findings.ts';

test('a database without a primary is told as critical, one with fewer members than wanted as a warning', () => {
  const facts = { name: 'shop-postgres', command: 'pg', wanted: 2, up: 2, isServed: true };
  assert.deepEqual(memberFindings(facts), []);
  const [dead] = memberFindings({ ...facts, up: 1, isServed: false });
  assert.equal(dead?.severity, 'critical');
  assert.match(dead.what, /no primary: 1 of 2 members/);
  assert.match(
    dead.remedy ?? '',
    /a member that is restoring serves again by itself.*flynn pg failover -a shop-postgres/,
  );
  const [alone] = memberFindings({ ...facts, up: 1 });
  assert.deepEqual([alone?.severity, alone?.what], ['warning', '1 of 2 members are up']);
  assert.deepEqual([dead.matter, alone?.matter], ['members', 'members']);
  assert.match(alone?.why ?? '', /on one disk alone/);
  assert.match(memberFindings({ ...facts, wanted: 3 })[0]?.why ?? '', /one copy less/);
});

test('the check sees what runs and what is announced; one that nobody wants to run is well', async () => {
  let isServed = true;
  await using world = await startTestController({
    applianceImages: { postgres: 'flynn/postgres:1' },
    isServed: async () => isServed,
  });
  const has = async () => (await world.client.call(providers.list, {})).some(({ name }) => appliances.has(name));
  await waitFor(has, { what: 'the provider', deadlineMs: 30_000, intervalMs: 10 });
  await world.deployApp('shop', { web: { ports: [{ port: 8080 }] } });
  const body = { apps: ['shop'], config: {}, isReplacing: false };
  await world.client.call(resources.create, { params: { provider: 'postgres' }, body });
  const { signal } = new AbortController();
  const check = datastoreCheck(world.deps);
  assert.deepEqual(await check.find(signal), []);
  isServed = false;
  assert.deepEqual(
    (await check.find(signal)).map(({ severity, subject }) => [severity, subject]),
    [['critical', 'database shop-postgres']],
  );
  const { status } = await world.deps.resources.lookup(appType, 'shop-postgres');
  await world.client.call(formations.put, {
    params: { app: 'shop-postgres', release: status.releaseId ?? '' },
    body: { processes: { postgres: 0 } },
  });
  assert.deepEqual(await check.find(signal), []);
});
