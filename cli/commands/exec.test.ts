import assert from 'node:assert/strict';
import { test } from 'node:test';
import { releases } from '@flynn/controller/api';
import { openDeskWithController } from '../testing.ts';

test('`exec` runs beside a running job, with these pipes and its exit code', async () => {
  await using env = await openDeskWithController();
  await env.controller.deployApp('hello', { web: {} });
  const { code, stdout, stderr } = await env.desk.run(['-a', 'hello', 'exec', 'cat', '-n', 'a b'], { input: 'spoken' });
  assert.equal(code, 5, stderr);
  assert.equal(stdout, 'cat|-n|a b\nspoken');
});

test('`exec` takes a type or a job, and tells when there is none', async () => {
  await using env = await openDeskWithController();
  await env.controller.deployApp('hello', { web: {} });
  const [job] = await env.controller.jobsOf('hello', 1);
  const run = (...argv: string[]) => env.desk.run(['-a', 'hello', 'exec', ...argv]);
  assert.equal((await run('-t', 'web', 'true')).code, 5);
  assert.equal((await run('-j', job?.id ?? '', 'true')).code, 5);
  const none = await run('-t', 'worker', 'true');
  assert.equal(none.code, 1);
  assert.match(none.stderr, /hello has no worker job that runs/);
});

test('in a slug `exec` starts as everything of it does', async () => {
  await using env = await openDeskWithController();
  const { client } = env.controller;
  await env.desk.run(['create', 'hello', '-r', '']);
  const image = { base: 'slug-runner', layers: [] };
  const artifact = await client.call(releases.createArtifact, { body: { type: 'slug', image } });
  const body = { artifactId: artifact.id, processes: { web: {} } };
  const release = await client.call(releases.create, { params: { app: 'hello' }, body });
  await env.controller.deploy('hello', release.id);
  const { stdout } = await env.desk.run(['-a', 'hello', 'exec', 'node', '-v']);
  assert.equal(stdout, '/usr/bin/flynn-run|node|-v\n');
});
