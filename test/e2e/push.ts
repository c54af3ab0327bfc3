import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { startSteadyLoad } from '../steady-load.ts';
import type { Checkout } from '../checkout.ts';
import type { TestCluster } from '../test-cluster.ts';
import { assertLive, wasWordGiven } from './routers-word.ts';

export function describePush(theCluster: () => TestCluster): void {
  let express: Checkout;

  test('a pushed Express app is built, started and reachable, with its build told live', async () => {
    express = await theCluster().checkout('express');
    const { stderr } = await express.push();
    assert.match(stderr, /-----> Node\.js app detected/);
    assert.match(stderr, /-----> Discovering process types/);
    assert.match(stderr, /-----> Compiled slug size is/);
    assert.match(stderr, /=====> Application deployed/);
    assert.match(stderr, /=====> http:\/\/express\.flynn\.localhost/);
    await assertLive(theCluster(), 'express', async () => (await express.get()).status === 200);
    const answer = await express.get();
    assert.match(answer.body, /^Hello from Flynn\ninstance \S+/);
    assert.match(String(answer.headers['x-request-id']), /\S{20,}/);
  });

  test('a second push takes its packages from the cache and drops no request under steady load', async () => {
    const cluster = theCluster();
    await express.write('server.js', (await express.read('server.js')).replace('Hello from', 'Welcome from'));
    await express.commit('another greeting');
    const load = startSteadyLoad((signal) => cluster.get('express', '/', { signal }), {
      lanes: 4,
      pauseMs: 10,
      maxMs: 120_000,
    });
    const { stderr } = await express.push();
    const report = await load.stop();
    assert.match(stderr, /Taking packages that were downloaded before from the cache/);
    assert.ok(report.requests > 50, `only ${report.requests} requests`);
    // Without its word a router may ask jobs that have gone.
    if (await wasWordGiven(cluster, 'express')) assert.deepEqual(report.failures, []);
    await assertLive(cluster, 'express', async () => (await express.get()).body.startsWith('Welcome from Flynn'));
  });

  test('web and worker of one app run from one slug', async () => {
    const app = await theCluster().checkout('web-worker');
    await app.push();
    await app.flynn(['scale', 'web=1', 'worker=1']);
    await app.untilAnswers();
    for (const type of ['web', 'worker']) await theCluster().untilRunning('web-worker', type, 1);
  });

  test('a TypeScript app is compiled by its build script', async () => {
    const app = await theCluster().checkout('typescript');
    await app.push();
    await app.untilAnswers();
  });

  test('a static site is served', async () => {
    const app = await theCluster().checkout('static');
    const { stderr } = await app.push();
    assert.match(stderr, /-----> Static/);
    const answer = await app.untilAnswers();
    assert.match(String(answer.headers['content-type']), /text\/html/);
  });

  test('BUILDPACK_URL takes any buildpack, here a tarball over HTTP', async () => {
    const cluster = theCluster();
    const app = await cluster.checkout('custom-buildpack/app', 'custom-buildpack');
    const packed = spawnSync('tar', [
      '-czf',
      '-',
      '-C',
      join(import.meta.dirname, '../apps/custom-buildpack/buildpack'),
      '.',
    ]);
    const server = createServer((_, response) => response.end(packed.stdout));
    await new Promise<void>((resolve) => server.listen(0, cluster.host.gateway, resolve));
    try {
      const address = server.address();
      assert.ok(address !== null && typeof address === 'object');
      const url = `http://${cluster.host.gateway}:${address.port}/buildpack.tgz`;
      await app.flynn(['env', 'set', `BUILDPACK_URL=${url}`, 'NAME=Flynn']);
      const { stderr } = await app.push();
      assert.match(stderr, /-----> Build 1 of this app/);
    } finally {
      server.close();
    }
    await app.flynn(['scale', 'greeter=1']);
    await waitFor(async () => (await app.flynn(['log', '-n', '20'])).stdout.includes('Hello, Flynn!'), {
      what: "the greeter's line in the log",
      deadlineMs: 120_000,
      intervalMs: 300,
    });
  });
}
