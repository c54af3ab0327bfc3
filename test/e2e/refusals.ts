import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import type { TestCluster } from '../test-cluster.ts';

type Release = { id: string; version: number; isCurrent: boolean };

async function releases(cluster: TestCluster, app: string): Promise<Release[]> {
  return JSON.parse((await cluster.flynn(['-a', app, 'release', '--json'])).stdout) as Release[];
}

export function describeRefusals(theCluster: () => TestCluster): void {
  test('an app that crashes at start fails its push with its last lines, and the release before keeps serving', async () => {
    const cluster = theCluster();
    const app = await cluster.checkout('static', 'crash');
    await app.push();
    const before = (await releases(cluster, 'crash')).find((release) => release.isCurrent);
    await rm(join(app.directory, 'public'), { recursive: true });
    await rm(join(app.directory, 'static.json'));
    await cluster.exec(['cp', '-a', `${join(import.meta.dirname, '../apps/crash')}/.`, app.directory]);
    await app.commit('now it crashes');
    const { stderr } = await app.push({ code: 1 });
    assert.match(stderr, /DATABASE_URL is not set: cannot start/);
    assert.match(stderr, /rejected/);
    assert.deepEqual(
      (await releases(cluster, 'crash')).find((release) => release.isCurrent),
      before,
    );
    assert.equal((await app.get()).status, 200);
  });

  test('a failing build fails the push with the output of the build', async () => {
    const app = await theCluster().checkout('failing-build');
    const { stderr } = await app.push({ code: 1 });
    assert.match(stderr, /the colour "reed" does not exist/);
    assert.deepEqual(await releases(theCluster(), 'failing-build'), []);
  });

  test('a key nobody added is refused', async () => {
    const cluster = theCluster();
    const key = join(cluster.directory, 'stranger');
    assert.equal(spawnSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', key]).status, 0);
    const app = await cluster.checkout('static', 'stranger');
    const { stderr } = await app.push({
      code: 128,
      env: {
        GIT_SSH_COMMAND: `ssh -F /dev/null -i ${key} -o IdentitiesOnly=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o BatchMode=yes`,
      },
    });
    assert.match(stderr, /Permission denied/);
  });

  test('a push to an app that does not exist says so and what to do', async () => {
    const cluster = theCluster();
    const app = await cluster.checkout('static', 'somewhere');
    const url = (await cluster.exec(['git', 'remote', 'get-url', 'flynn'], { cwd: app.directory })).stdout.trim();
    await cluster.exec(['git', 'remote', 'set-url', 'flynn', url.replace('somewhere', 'nowhere')], {
      cwd: app.directory,
    });
    const { stderr } = await app.push({ code: 128 });
    assert.match(stderr, /nowhere/);
    assert.match(stderr, /flynn create/);
  });

  test('a Procfile that cannot be read is refused with its line', async () => {
    const app = await theCluster().checkout('static', 'bad-procfile');
    await app.write('Procfile', 'web: flynn-static\nthis is no process type\n');
    await app.commit('a broken Procfile');
    const { stderr } = await app.push({ code: 1 });
    assert.match(stderr, /Procfile/);
    assert.match(stderr, /line 2/);
  });

  test('bad names and scales are refused with what is wrong', async () => {
    const cluster = theCluster();
    const cases: readonly [string[], RegExp][] = [
      [['create', 'Not A Name'], /name/i],
      [['create', 'express'], /express/],
      [['-a', 'nosuch', 'ps'], /nosuch/],
      [['-a', 'express', 'scale', 'wbe=2'], /web/],
      [['-a', 'express', 'scale', 'web=-1'], /-1/],
      [['-a', 'express', 'scale', 'web=many'], /many/],
      [['-a', 'express', 'env', 'set', '1BAD=x'], /1BAD/],
      [['-a', 'express', 'rollback', '-y', 'v99'], /v99/],
      [['-a', 'controller', 'delete', '-y'], /controller/],
    ];
    for (const [args, expected] of cases) {
      const { code, stderr } = await cluster.flynn(args, { code: 'any', cwd: cluster.directory });
      assert.notEqual(code, 0, `flynn ${args.join(' ')} should fail`);
      assert.match(stderr, expected, `flynn ${args.join(' ')}`);
    }
  });
}
