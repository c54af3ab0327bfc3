import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import type { TestCluster } from '../test-cluster.ts';

type Operation = { id: string; kind: string; state: string; runnerId?: string; error?: string };

/** The package.json with a build script. */
function withBuild(text: string, build: string): string {
  const manifest = JSON.parse(text) as { scripts: Record<string, string> };
  return JSON.stringify({ ...manifest, scripts: { ...manifest.scripts, build } });
}

export function describeOperations(theCluster: () => TestCluster): void {
  const list = async (app: string): Promise<Operation[]> =>
    JSON.parse((await theCluster().flynn(['op', 'list', '-a', app, '--json'])).stdout) as Operation[];

  const buildThatRuns = (app: string): Promise<Operation> =>
    waitFor(async () => (await list(app)).find(({ kind, state }) => kind === 'build' && state === 'running'), {
      what: `a build of ${app} to run`,
      deadlineMs: 180_000,
      intervalMs: 200,
    });

  test('a push is three operations, with their times, their runner and their log', async () => {
    const cluster = theCluster();
    const app = await cluster.checkout('static', 'ops');
    await app.push();
    const isTold = async (): Promise<Operation[]> => {
      const found = await list('ops');
      assert.deepEqual(
        found.map(({ kind, state }) => `${kind} ${state}`),
        ['deploy complete', 'release complete', 'build complete'],
      );
      return found;
    };
    const found = await waitFor(isTold, { what: 'three operations', deadlineMs: 60_000, intervalMs: 300 });
    const build = found.at(-1);
    const info = await cluster.flynn(['op', 'info', build?.id ?? '']);
    assert.match(info.stdout, /^state +complete$/m);
    assert.match(info.stdout, new RegExp(`^runner +${build?.runnerId}$`, 'm'));
    assert.match((await cluster.flynn(['op', 'log', '-f', build?.id ?? ''])).stdout, /-----> Building ops/);
    assert.match((await cluster.flynn(['runner', 'list'])).stdout, new RegExp(`^${build?.runnerId} +adopted`, 'm'));
  });

  test('a build goes on over a controller that is killed in the middle of it', async () => {
    const cluster = theCluster();
    const app = await cluster.checkout('express', 'ops-controller');
    // It is under way still when the controller goes.
    await app.write('package.json', withBuild(await app.read('package.json'), 'sleep 20'));
    await app.commit('a build that takes a while');
    const pushing = app.push();
    const { id, runnerId } = await buildThatRuns('ops-controller');
    const building = () => cluster.containers('ops-controller', 'build');
    const isBuilt = async () => (await building()).length === 1;
    await waitFor(isBuilt, { what: 'the container of the build', deadlineMs: 60_000, intervalMs: 100 });
    const [controller] = await cluster.containers('controller', 'web');
    await cluster.docker('kill', controller ?? '');
    assert.equal((await building()).length, 1, 'the build goes on');
    assert.match((await pushing).stderr, /=====> Application deployed/);
    const { stdout: build } = await cluster.flynn(['op', 'info', id]);
    assert.match(build, /^state +complete$/m);
    assert.match(build, new RegExp(`^runner +${runnerId}$`, 'm'));
  });

  test('when the runner is killed its build is begun again, which the pusher is told, and nothing is left of the first', async () => {
    const cluster = theCluster();
    const app = await cluster.checkout('express', 'ops-runner');
    // It is under way still when the runner goes.
    await app.write('package.json', withBuild(await app.read('package.json'), 'sleep 15'));
    await app.commit('a build that takes a while');
    const pushing = app.push();
    const { id } = await buildThatRuns('ops-runner');
    const [runner] = await cluster.containers('runner', 'runner');
    await cluster.docker('kill', runner ?? '');
    const { stderr } = await pushing;
    assert.match(stderr, /The runner \S+ that saw to it was lost: beginning again \(2nd try of 3 at most\)/);
    assert.match(stderr, /=====> Application deployed/);
    const { stdout: build } = await cluster.flynn(['op', 'info', id]);
    assert.match(build, /^state +complete$/m);
    assert.match(build, /^lost +\S+: the runner \S+ that saw to it was lost$/m);
    await waitFor(async () => (await cluster.jobs('ops-runner')).every(({ type }) => type !== 'build'), {
      what: 'the build jobs to end',
      deadlineMs: 180_000,
      intervalMs: 200,
    });
  });
}
