import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isSigned, startReceiver } from '@flynn/controller/notifications/receiver-fixture';
import { waitFor } from '@flynn/kit/retry';
import { startSteadyLoad } from '../steady-load.ts';
import type { Checkout } from '../checkout.ts';
import type { TestCluster } from '../test-cluster.ts';
import { wasWordGiven } from './routers-word.ts';

const appJson = {
  env: { TOKEN: { generator: 'secret' }, GREETING: 'first' },
  formation: { web: { quantity: 2 } },
  healthchecks: { web: [{ type: 'startup', path: '/', attempts: 20, interval: 1, timeout: 2 }] },
  cron: [{ schedule: '* * * * *', command: 'echo swept by $FLYNN_PROCESS_TYPE' }],
};

type Rollout = { id: string; state: string; error?: string };

export function describeDeploys(theCluster: () => TestCluster): void {
  let app: Checkout;

  const newest = async (): Promise<Rollout> => {
    const [one] = JSON.parse((await app.flynn(['deployment', '--json'])).stdout) as Rollout[];
    assert.ok(one);
    return one;
  };
  const bodies = async (): Promise<Set<string>> => {
    const found = new Set<string>();
    for (let n = 0; n < 30; n += 1) found.add((await app.get()).body.split(' ')[0] ?? '');
    return found;
  };
  /** Where no release takes the place of another that answers: jobs come into routers' tables, and leave them, soon after. */
  const untilBodies = async (...wanted: string[]): Promise<void> => {
    const probe = async (): Promise<true> => {
      assert.deepEqual(await bodies(), new Set(wanted));
      return true;
    };
    await waitFor(probe, { what: `answers of ${wanted.join(', ')}`, deadlineMs: 120_000 });
  };
  /** Once a release is live the one before it answers no more; a router that was slow to say so may not know the new jobs yet. */
  const untilLive = async (live: string, before: string): Promise<void> => {
    assert.ok(!(await bodies()).has(before), `${before} answers still`);
    await untilBodies(live);
  };

  test('a release line runs before the rollout, told as it goes, and app.json says how the app begins', async () => {
    app = await theCluster().checkout('web-worker', 'rollouts');
    const server = (await app.read('web.js')).replace('`web ', '`${process.env.GREETING} ');
    await app.write('web.js', server);
    await app.write('app.json', JSON.stringify(appJson));
    await app.write('Procfile', 'web: node web.js\nrelease: echo migrating for $GREETING; exit ${FAIL:-0}\n');
    await app.commit('with a release line');
    const { stderr } = await app.push();
    assert.match(
      stderr,
      /-----> Running the release command\.\.\.[^]*migrating for first[^]*=====> Application deployed/,
    );
    await theCluster().untilRunning('rollouts', 'web', 2);
    assert.match((await app.flynn(['env', 'get', 'TOKEN'])).stdout.trim(), /^[0-9a-f]{64}$/);
    await untilBodies('first');
  });

  test('a release line that fails keeps what was live, the last lines tell why, and who is to be told is told', async () => {
    const { host } = theCluster();
    await using receiver = await startReceiver(host.gateway);
    const add = (url: string, code = 0) =>
      app.flynn(['notification', 'add', 'ops', url, '--on', 'deployment', '--json'], { code });
    assert.match((await add(`http://${host.address}`, 1)).stderr, /is inside the cluster/);
    const { secret } = JSON.parse((await add(receiver.url)).stdout) as { secret: string };
    assert.match((await app.flynn(['notification', 'test', 'ops'])).stdout, /^ops has it: 204/);
    const { stderr } = await app.flynn(['env', 'set', 'FAIL=3', 'GREETING=never'], { code: 1 });
    assert.match(stderr, /the release command failed: ended with exit code 3[^]*migrating for never/);
    assert.deepEqual(await bodies(), new Set(['first']));
    assert.equal((await newest()).state, 'failed');
    const told = await waitFor(() => receiver.got[1], { what: 'word of the failure', deadlineMs: 60_000 });
    assert.ok(isSigned(told, secret, Date.now()));
    assert.match(told.body, /"type":"deployment.failed".*"name":"rollouts".*the release command failed/);
    await app.flynn(['notification', 'remove', 'ops']);
  });

  test('a canary answers beside the old release until it is aborted or promoted, and no request is lost', async () => {
    const cluster = theCluster();
    await app.flynn(['deployment', 'strategy', 'canary']);
    const load = startSteadyLoad((signal) => cluster.get('rollouts', '/', { signal }), {
      lanes: 2,
      pauseMs: 10,
      maxMs: 120_000,
    });
    assert.match((await app.flynn(['env', 'set', 'GREETING=second'])).stdout, /the canaries of v\d+ are up/);
    await untilBodies('first', 'second');
    await app.flynn(['deployment', 'abort', '-m', 'not yet']);
    await waitFor(async () => (await newest()).state === 'failed', {
      what: 'the end of the canary',
      deadlineMs: 180_000,
    });
    // Its jobs are stopped from then on.
    await untilBodies('first');
    await app.flynn(['env', 'set', 'GREETING=third']);
    await app.flynn(['deployment', 'promote']);
    await waitFor(async () => (await newest()).state === 'complete', { what: 'the rest of it', deadlineMs: 180_000 });
    await untilLive('third', 'first');
    const report = await load.stop();
    assert.ok(report.requests > 50, `only ${report.requests} requests`);
    // Without its word a router may ask jobs that have gone, of the canary that was aborted as of the release before.
    if (await wasWordGiven(cluster, 'rollouts', 2)) assert.deepEqual(report.failures, []);
  });

  test('one by one, the old jobs have ended when it is complete', async () => {
    await app.flynn(['deployment', 'strategy', 'one-by-one']);
    await app.flynn(['env', 'set', 'GREETING=fourth']);
    await waitFor(async () => (await newest()).state === 'complete', { what: 'the end of it', deadlineMs: 180_000 });
    assert.equal((await theCluster().containers('rollouts', 'web')).length, 2);
    await untilLive('fourth', 'third');
    const states = async () =>
      (await theCluster().jobs('rollouts')).flatMap(({ type, state }) => (type === 'web' ? [state] : []));
    await waitFor(async () => (await states()).join() === 'running,running', {
      what: 'the jobs to be told as those that run',
      deadlineMs: 60_000,
    });
  });

  test('`exec` runs beside a running job, with its environment and exit code', async () => {
    const { stdout } = await app.flynn(
      ['exec', '-t', 'web', 'sh', '-c', 'echo $GREETING $FLYNN_PROCESS_TYPE; exit 7'],
      {
        code: 7,
      },
    );
    assert.equal(stdout, 'fourth web\n');
  });

  test('cron runs its line, by hand and at its tick, and the log has what it said', async () => {
    const [line] = JSON.parse((await app.flynn(['cron', '--json'])).stdout) as { id: string }[];
    assert.ok(line);
    await app.flynn(['cron', 'run', line.id]);
    type Run = { tick?: string; state: string };
    const runs = async () => JSON.parse((await app.flynn(['cron', 'runs', line.id, '--json'])).stdout) as Run[];
    await waitFor(
      async () => {
        const done = (await runs()).filter(({ state }) => state === 'done');
        return done.some(({ tick }) => tick === undefined) && done.some(({ tick }) => tick !== undefined);
      },
      { what: 'a run by hand and one at a tick', deadlineMs: 240_000, intervalMs: 1_000 },
    );
    const ticks = (await runs()).flatMap(({ tick }) => tick ?? []);
    assert.equal(new Set(ticks).size, ticks.length, 'no tick ran twice');
    await waitFor(async () => (await app.flynn(['log', '-n', '200'])).stdout.includes('swept by cron'), {
      what: 'what it said in the log',
      deadlineMs: 120_000,
      intervalMs: 500,
    });
  });

  test('router and controller are replaced by releases of themselves and rolled back under load, and no request fails', async () => {
    const load = startSteadyLoad((signal) => theCluster().get('rollouts', '/', { signal }), {
      lanes: 2,
      pauseMs: 20,
      maxMs: 600_000,
    });
    for (const part of ['router', 'controller']) {
      const own = async () =>
        (JSON.parse((await app.flynn(['-a', part, 'deployment', '--json'])).stdout) as Rollout[])[0];
      for (const change of [
        ['env', 'set', 'PROBE=1'],
        ['rollback', '-y'],
      ]) {
        const { stdout } = await app.flynn(['-a', part, ...change]);
        assert.match(stdout, /release v\d+ deployed/);
        // The controller ends its own deployment, too.
        await waitFor(async () => (await own())?.state === 'complete', {
          what: `${part}: its end`,
          deadlineMs: 180_000,
        });
      }
      const env = JSON.parse((await app.flynn(['-a', part, 'env', '--json'])).stdout) as Record<string, string>;
      assert.equal(env['PROBE'], undefined);
    }
    const report = await load.stop();
    assert.deepEqual(report.failures, []);
    assert.ok(report.requests > 50, `only ${report.requests} requests`);
  });

  test('an app is exported, deleted, and comes back from its file', async () => {
    await app.flynn(['export', 'saved.tar']);
    await app.flynn(['delete', '-y']);
    await app.flynn(['import', 'saved.tar']);
    await theCluster().untilRunning('rollouts', 'web', 2);
    await untilBodies('fourth');
    assert.match((await app.flynn(['gc'])).stdout, /^collected 0 releases, 0 blobs/);
    // Its cron would start containers while others are counted.
    await app.flynn(['-a', 'rollouts', 'delete', '-y']);
  });
}
