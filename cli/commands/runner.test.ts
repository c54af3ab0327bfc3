import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseEnv } from 'node:util';
import { createControllerClient } from '@flynn/controller/client';
import type { Operation } from '@flynn/controller/model';
import { newApp } from '@flynn/controller/operations/lifecycle-fixture';
import { runners } from '@flynn/controller/operations/api-runners';
import { runnerCredential } from '@flynn/controller/operations/runner-token';
import { TestRunner } from '@flynn/controller/operations/test-runner';
import { waitFor } from '@flynn/kit/retry';
import { loadClusters, saveClusters } from '../clusters/clusters.ts';
import { openDeskWithController } from '../testing.ts';

const variables = (text: string) => ({ ...parseEnv(text) });

test('`runner add` writes what a runner outside of the cluster is started with, and it is let in by that', async () => {
  await using env = await openDeskWithController();
  const { desk, controller } = env;
  const known = await loadClusters(desk.configDirectory);
  const ca = '-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n';
  const made = await desk.run(['runner', 'add', 'office', '--labels', 'zone=a,registry=team']);
  assert.match(made.stderr, /^office gets work as soon as it comes; its token is told this once/);
  const told = variables(made.stdout);
  const { FLYNN_RUNNER_TOKEN: token = '', ...rest } = told;
  assert.deepEqual(rest, {
    FLYNN_CONTROLLER_URL: controller.url,
    FLYNN_RUNNER_ID: 'office',
    FLYNN_RUNNER_LABELS: 'registry=team,zone=a',
  });
  await using client = createControllerClient({ baseUrl: controller.url, key: runnerCredential('office', token) });
  const runner = new TestRunner({ client, id: 'office', token, labels: { zone: 'a', registry: 'team' } });
  assert.equal((await runner.register()).state, 'adopted');
  assert.match((await desk.run(['runner', 'add', 'office'])).stderr, /there is a runner office already/);
  assert.match((await desk.run(['runner', 'add', 'other', '--labels', 'x'])).stderr, /--labels x: write NAME=VALUE/);

  const named = await desk.run(['runner', 'add', 'named', '--by-id-only']);
  assert.equal(variables(named.stdout)['FLYNN_RUNNER_BY_ID_ONLY'], 'yes');
  const { isByIdOnly } = await controller.client.call(runners.get, { params: { runner: 'named' } });
  assert.equal(isByIdOnly, true);

  for (const one of known.clusters) one.ca = ca;
  await saveClusters(desk.configDirectory, known);
  const pinned = variables((await desk.run(['runner', 'add', 'pinned'])).stdout);
  assert.equal(Buffer.from(pinned['FLYNN_CONTROLLER_CA'] ?? '', 'base64').toString(), ca);
  const audit = await desk.run(['audit', '--json']);
  assert.match(audit.stdout, /office/);
  assert.ok(!audit.stdout.includes(token));
});

test('`deploy --runner` has the image fetched by the runner that it names, or by one with labels', async () => {
  await using env = await openDeskWithController();
  const { desk, controller } = env;
  await newApp(controller.client, 'shop');
  const image = 'registry.example.com/team/app:1';
  const deploy = (runner: string) => desk.run(['-a', 'shop', 'deploy', '--image', image, '--runner', runner]);
  const build = async (waitsFor: string): Promise<Operation | undefined> => {
    const { stdout } = await desk.run(['op', 'list', '-a', 'shop', '--live', '--json']);
    const all = JSON.parse(stdout) as Operation[];
    return all.find((one) => one.kind === 'build' && one.waitsFor === waitsFor);
  };
  for (const [runner, waitsFor] of [
    ['office', 'runner office, which is not there'],
    ['registry=team', 'a runner with registry=team: none is there'],
  ] as const) {
    const ran = deploy(runner);
    const { id } = await waitFor(() => build(waitsFor), { what: waitsFor, deadlineMs: 30_000 });
    await desk.run(['op', 'cancel', id]);
    assert.equal((await ran).code, 1);
  }
  const pushed = await desk.run(['-a', 'shop', 'deploy', '--image', `sha256:${'a'.repeat(64)}`, '--runner', 'office']);
  assert.deepEqual([pushed.code, /--runner is for an image that is fetched/.test(pushed.stderr)], [2, true]);
  assert.match((await deploy('=')).stderr, /--runner =: write NAME=VALUE/);
});

test('where the cluster keeps no logins of registries `registry login` says what to do before it reads a password', async () => {
  await using env = await openDeskWithController({ keepsRegistryLogins: false });
  const ran = await env.desk.run(['registry', 'login', 'r.example.com', '-u', 'me'], { input: 's3cret\n' });
  assert.equal(ran.code, 1);
  assert.match(ran.stderr, /keeps no logins of registries \(r\.example\.com\): .*flynn runner add ID/);
  assert.ok(!JSON.stringify((await env.controller.store.list('/')).entries).includes('s3cret'));
});
