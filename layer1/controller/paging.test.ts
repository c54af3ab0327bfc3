import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { tokens, users } from './access/api.ts';
import { evaluations } from './hosts/api.ts';
import { apps, deployments, formations, jobs, releases } from './api.ts';
import { routing } from './routes/api.ts';
import { operations } from './operations/api.ts';
import { startTestController } from './testing.ts';

test('a list read in pages is the list, and a page after something that is gone says so', async () => {
  await using world = await startTestController();
  const { client } = world;
  const { release } = await world.deployApp('shop', { web: {} });
  const params = { app: 'shop' };
  for (let index = 0; index < 6; index += 1) {
    await client.call(apps.create, { body: { name: `app-${index}` } });
    await client.call(releases.create, { params, body: { meta: { n: String(index) } } });
    await client.call(routing.create, { params, body: { domain: `d${index}.example.com` } });
    const body = { pushId: `p${index}`, sourceDigest: 'x', commit: 'c', branch: 'main' };
    await client.call(operations.push, { params, body });
    await client.call(users.create, { body: { name: `user-${index}` } });
    await client.call(tokens.create, { body: { name: 'x' } });
    await client.call(jobs.run, { params, body: { command: ['true'] } });
  }
  await world.deploy('shop', release.id);
  type Query = { limit?: number; after?: string };
  const lists: ((query: Query) => Promise<{ id: string }[]>)[] = [
    (query) => client.call(apps.list, { query }),
    (query) => client.call(releases.list, { params, query }),
    (query) => client.call(routing.list, { params, query }),
    (query) => client.call(operations.list, { params, query }),
    (query) => client.call(deployments.list, { params, query }),
    (query) => client.call(users.list, { query }),
    (query) => client.call(tokens.list, { query }),
    (query) => client.call(jobs.list, { params, query: { all: true, ...query } }),
    (query) => client.call(evaluations.list, { query }),
  ];
  for (const list of lists) {
    const whole = await list({});
    const paged: { id: string }[] = [];
    for (;;) {
      const last = paged.at(-1)?.id;
      const page = await list({ limit: 2, ...(last === undefined ? {} : { after: last }) });
      assert.ok(page.length <= 2);
      paged.push(...page);
      if (page.length < 2) break;
    }
    assert.deepEqual(paged, whole);
    await assert.rejects(list({ after: 'nosuch' }), (error) => hasCode(error, 'conflict'));
    await assert.rejects(list({ limit: 0 }), (error) => hasCode(error, 'invalid'));
    await assert.rejects(list({ limit: 1_001 }), (error) => hasCode(error, 'invalid'));
  }
  assert.deepEqual(
    (await client.call(releases.list, { params })).map(({ version }) => version),
    [7, 6, 5, 4, 3, 2, 1],
  );
});

test('jobs that wait for a place are paged through like others', async () => {
  await using world = await startTestController({ hosts: 1, memoryBytes: 512 * 1024 ** 2 });
  const { release } = await world.deployApp('shop', { web: {} });
  const processes = { web: 12 };
  await world.client.call(formations.put, { params: { app: 'shop', release: release.id }, body: { processes } });
  await world.jobsOf('shop', 10, ({ error = '' }) => error.startsWith('2 placed, 10 waiting'));
  const seen: string[] = [];
  for (;;) {
    const last = seen.at(-1);
    const query = { limit: 4, ...(last === undefined ? {} : { after: last }) };
    const page = await world.client.call(jobs.list, { params: { app: 'shop' }, query });
    seen.push(...page.map(({ id }) => id));
    assert.ok(seen.length <= 12, 'it comes to an end');
    if (page.length < 4) break;
  }
  assert.deepEqual([seen.length, new Set(seen).size], [12, 12]);
});
