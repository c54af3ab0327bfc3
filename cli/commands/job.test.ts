import assert from 'node:assert/strict';
import { test } from 'node:test';
import { jobs } from '@flynn/controller/api';
import { openDeskWithController } from '../testing.ts';

/** What is set aside for a job that says nothing of memory. */
const jobBytes = 256 * 1024 ** 2;

test('`ps` tells where each job is, and of those that wait for a place alike how many there are', async () => {
  await using env = await openDeskWithController({ hosts: 1, memoryBytes: 2 * jobBytes });
  await env.controller.deployApp('hello', { web: {} });
  assert.equal((await env.desk.run(['-a', 'hello', 'scale', '-n', 'web=9'])).code, 0);
  await env.controller.jobsOf('hello', 2);
  await env.controller.jobsOf('hello', 7, ({ error = '' }) => error.includes('waiting'));
  const { stdout } = await env.desk.run(['-a', 'hello', 'ps']);
  const [header = '', first = '', ...others] = stdout.trimEnd().split('\n');
  assert.match(header, /^ID +TYPE +STATE +HOST +STARTED +RESTARTS +RELEASE +NOTE$/);
  assert.match(first, /^\S+ +web +pending +- +- +0 +v1 +7 jobs: 2 placed, 7 waiting: memory \(1 host full\)$/);
  assert.equal(others.length, 2);
  for (const line of others) assert.match(line, /^\S+ +web +running +host1 +\d+s +0 +v1 +-$/);

  const all = await env.controller.client.call(jobs.list, { params: { app: 'hello' } });
  const ids = (await env.desk.run(['-a', 'hello', 'ps', '-q'])).stdout.trimEnd().split('\n');
  assert.deepEqual([ids.length, new Set(ids).size], [9, 9], 'each has an id of its own');
  assert.deepEqual(
    ids,
    all.map(({ id }) => id),
  );

  // The first of them has the id of its workload, of which others run.
  for (const { id } of all.filter(({ state }) => state === 'pending').slice(0, 2)) {
    const { code, stderr } = await env.desk.run(['-a', 'hello', 'kill', id]);
    assert.equal(code, 1);
    assert.match(stderr, /waits for a place and is on no host: scale web down instead/);
  }
  assert.equal((await env.controller.jobsOf('hello', 2)).length, 2);
});
