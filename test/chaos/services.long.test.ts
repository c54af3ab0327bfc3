/** Each service of the platform is killed for a minute while an app is pushed, scaled, run and read: it ends as it would have. */
import assert from 'node:assert/strict';
import { after, before, suite, test, type TestContext } from 'node:test';
import { messageOf } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import type { Checkout } from '../checkout.ts';
import { TestCluster } from '../test-cluster.ts';
import { type AtRest, untilAtRest } from './at-rest.ts';
import { Disturbance } from './disturbance.ts';
import { Stage, scenario } from './stage.ts';

const services = [
  ['controller', 'web'],
  ['controller', 'worker'],
  ['runner', 'runner'],
  ['git-receiver', 'web'],
  ['blobstore', 'web'],
  ['log-aggregator', 'web'],
  ['router', 'web'],
] as const;
const disturbedMs = 60_000;
const scenarioMs = 600_000;
/** Of a minute, in which it starts later each time. */
const leastKills = 3;
/** What is left of the minute, the pause before its next start, and the step itself. */
const stepMs = 180_000;

suite('services of the platform are killed while they are used', () => {
  let cluster: TestCluster;
  let stage: Stage;
  let undisturbed: AtRest;
  before(async () => {
    cluster = await TestCluster.create(60);
    await cluster.up();
    stage = await Stage.open(cluster, process.env['FLYNN_TEST_BASE_IMAGE'] ?? '');
    const app = await cluster.checkout('static', 'undisturbed');
    await use(app, 'last');
    undisturbed = await untilAtRest(app);
  });
  after(async () => {
    await stage?.[Symbol.asyncDispose]();
    await cluster?.[Symbol.asyncDispose]();
  });

  test('what an app is like that nothing disturbed', () => {
    assert.deepEqual(undisturbed, expected);
  });

  for (const [service, type] of services) {
    scenario(
      () => stage,
      `${service} ${type}`,
      async (_stage, t) => {
        const app = await cluster.checkout('static', `with-${service}-${type}`);
        const text = await disturbed(cluster, app, { service, type }, t);
        stage.since('nothing was killed any more');
        assert.deepEqual(await untilAtRest(app), { ...undisturbed, body: `${text}\n`, env: text });
        await app.flynn(['delete', '-y']);
      },
      { timeoutMs: scenarioMs },
    );
  }
});

/** At least once all through, and again while the disturbance lasts. The text of the last round. */
async function disturbed(
  cluster: TestCluster,
  app: Checkout,
  { service, type }: { service: string; type: string },
  t: TestContext,
): Promise<string> {
  const refusals: string[] = [];
  await using disturbance = new Disturbance(cluster, service, { type, forMs: disturbedMs });
  let rounds = 0;
  do {
    rounds += 1;
    refusals.push(...(await use(app, `round ${rounds}`)));
  } while (!disturbance.isOver);
  const { kills } = disturbance;
  t.diagnostic(`${kills} kills, ${rounds} rounds, ${refusals.length} commands failed and were given again`);
  for (const [refusal, same] of Map.groupBy(refusals, (text) => text)) t.diagnostic(`${same.length} times: ${refusal}`);
  assert.ok(kills >= leastKills, `only ${kills} kills`);
  return `round ${rounds}`;
}

/** What somebody does who does not give up. What failed meanwhile. */
async function use(app: Checkout, text: string): Promise<string[]> {
  const refusals: string[] = [];
  const step = (what: string, act: () => Promise<unknown>): Promise<unknown> =>
    waitFor(
      async () => {
        try {
          await act();
          return true;
        } catch (error) {
          refusals.push(`${what}: ${messageOf(error).slice(-400)}`);
          throw error;
        }
      },
      { what, deadlineMs: stepMs, intervalMs: 1_000 },
    );
  await app.write('public/index.html', `${text}\n`);
  await app.commit(text);
  await step('push', () => app.push());
  await step('scale up', () => app.flynn(['scale', 'web=3']));
  await step('env', () => app.flynn(['env', 'set', `TEXT=${text}`]));
  await step('run', async () => assert.equal((await app.flynn(['run', 'echo', text])).stdout, `${text}\n`));
  await step('log', () => app.flynn(['log', '-n', '10']));
  await step('scale down', () => app.flynn(['scale', 'web=2']));
  return refusals;
}

const expected: AtRest = {
  body: 'last\n',
  env: 'last',
  counts: { web: 2 },
  jobs: ['web running', 'web running'],
  unfinished: [],
};
