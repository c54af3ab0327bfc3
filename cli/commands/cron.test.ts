import assert from 'node:assert/strict';
import { test } from 'node:test';
import { releases } from '@flynn/controller/api';
import { crons } from '@flynn/controller/cron/api';
import { waitFor } from '@flynn/kit/retry';
import { openDeskWithController } from '../testing.ts';

test('cron lists lines with when they run next, and runs, pauses and resumes them', async () => {
  await using env = await openDeskWithController();
  const { client } = env.controller;
  const { release } = await env.controller.deployApp('hello', { web: {} });
  const cron = [{ schedule: '0 3 * * *', command: 'sweep all', timezone: 'Europe/Berlin' }];
  const body = { cron, ...(release.artifactId === undefined ? {} : { artifactId: release.artifactId }) };
  const next = await client.call(releases.create, { params: { app: 'hello' }, body });
  await env.controller.deploy('hello', next.id);
  const id = await waitFor(async () => (await client.call(crons.list, { params: { app: 'hello' } }))[0]?.id, {
    what: 'the line',
    deadlineMs: 60_000,
  });
  const run = (...argv: string[]) => env.desk.run(['-a', 'hello', 'cron', ...argv]);
  const nextText = String.raw`\d{4}-\d\d-\d\dT0[12]:00:00\.000Z`;
  const row = new RegExp(`^${id} +0 3 \\* \\* \\* +Europe/Berlin +${nextText} +- +- +sweep all$`, 'm');
  assert.match((await run()).stdout, row);
  assert.match((await run('run', id.slice(0, 4))).stdout, /^started \S+-cron-\S+\n$/);
  assert.match((await run('runs', id)).stdout, /^by hand +running +\d+s +- +\S+ +-$/m);
  assert.match((await run('pause', id)).stdout, /is paused/);
  assert.match((await run('list')).stdout, / paused /);
  assert.match((await run('resume', id)).stdout, /runs next at \d{4}/);
  assert.equal((await run('runs', 'zzz')).code, 1);
});
