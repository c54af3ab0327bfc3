import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HttpClient } from '@flynn/kit/http-client';
import { startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { certificateRoutes } from './api.ts';
import { certificateHandlers } from './server.ts';
import { trustFixture } from './trust-fixture.ts';

test('the host’s and those of its jobs are listed and made anew, not what a job that is gone has left', async () => {
  await using fixture = await trustFixture();
  const trust = await fixture.open();
  for (const jobId of ['h1-here', 'h1-gone']) await trust.jobs.issue(jobId, 'controller');
  await using server = await startServer({
    name: 'agent',
    host: '127.0.0.1',
    port: 0,
    log: silentLogger(),
    handlers: certificateHandlers(trust, (jobId) => jobId === 'h1-here'),
  });
  await using client = new HttpClient({ baseUrl: server.url, name: 'agent' });
  const before = await client.call(certificateRoutes.list, {});
  const after = await client.call(certificateRoutes.renew, {});
  const named = (all: typeof before) => all.map(({ role, jobId = '' }) => `${role} ${jobId}`);
  assert.deepEqual(named(before), ['flynn:host/h1 ', 'flynn:app/controller h1-here']);
  assert.deepEqual(named(after), named(before));
  for (const [i, { fingerprint }] of after.entries()) assert.notEqual(fingerprint, before[i]?.fingerprint);
});
