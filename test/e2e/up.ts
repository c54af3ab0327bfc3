import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import type { TestCluster } from '../test-cluster.ts';

const platform = [
  'blobstore',
  'controller',
  'dashboard',
  'git-receiver',
  'log-aggregator',
  'router',
  'runner',
  'slug-builder',
];

export function describeUp(theCluster: () => TestCluster): void {
  test('`up` on a host whose port 80 is taken names the port and the remedy, and changes nothing', async () => {
    const cluster = theCluster();
    const [program, args] = cluster.host.command([
      'node',
      '-e',
      "require('net').createServer().listen(80, () => console.log('listening'))",
    ]);
    const squatter = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    try {
      await once(squatter.stdout, 'data');
      const { stderr } = await cluster.up({ code: 1 });
      assert.match(stderr, /80/);
      assert.match(stderr, /FLYNN_HTTP_PORT/);
    } finally {
      const ended = once(squatter, 'exit');
      // The port is the next one's.
      if (squatter.kill()) await ended;
    }
    assert.equal(existsSync(cluster.env['FLYNN_STATE_DIR'] ?? ''), false);
    assert.equal((await cluster.docker('ps', '-aq')).stdout, '');
  });

  test('`up` on a bare host ends with a sample app that answers and says what to type next', async () => {
    const cluster = theCluster();
    const { stdout } = await cluster.up();
    assert.match(stdout, /http:\/\/hello\.flynn\.localhost/);
    assert.match(stdout, /git push flynn main/);
    assert.match(stdout, /flynn dashboard/);
    assert.equal((await cluster.get('hello')).status, 200);
  });

  test('every service of the platform is an app', async () => {
    const cluster = theCluster();
    const visible = JSON.parse((await cluster.flynn(['apps', '--json'])).stdout) as { name: string }[];
    assert.deepEqual(
      visible.map((app) => app.name),
      ['hello'],
    );
    const all = JSON.parse((await cluster.flynn(['apps', '--all', '--json'])).stdout) as { name: string }[];
    assert.deepEqual(all.map((app) => app.name).sort(), [...platform, 'hello'].sort());
    await waitFor(async () => (await cluster.flynn(['-a', 'controller', 'log', '-n', '5'])).stdout.trim() !== '', {
      what: 'lines of the controller',
      deadlineMs: 120_000,
      intervalMs: 500,
    });
  });

  test('the controller scales like any app', async () => {
    const cluster = theCluster();
    await cluster.flynn(['-a', 'controller', 'scale', 'web=2']);
    await cluster.untilRunning('controller', 'web', 2);
    await cluster.flynn(['-a', 'controller', 'scale', 'web=1']);
    await waitFor(async () => (await cluster.containers('controller', 'web')).length === 1, {
      what: 'the other one to have ended',
      deadlineMs: 120_000,
      intervalMs: 300,
    });
  });

  test('a second `up` changes nothing', async () => {
    const cluster = theCluster();
    const before = await cluster.docker('ps', '-q', '--no-trunc');
    await cluster.up();
    assert.equal((await cluster.docker('ps', '-q', '--no-trunc')).stdout, before.stdout);
  });
}
