/**
 * The store stands still for ten seconds in the middle of each command: it succeeds later, or says why not and can be given
 * again.
 */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { systemClock } from '@flynn/kit/clock';
import { waitFor } from '@flynn/kit/retry';
import type { ExecResult } from '@flynn/bootstrap/test-hosts/test-host';
import type { Checkout } from '../checkout.ts';
import { startSteadyLoad } from '../steady-load.ts';
import { TestCluster } from '../test-cluster.ts';
import { untilAtRest } from './at-rest.ts';

/** Longer than any lease that a host or a job may have lasts. */
const standstillMs = 10_000;
const againMs = 150_000;
const anyCode = { code: 'any', timeoutMs: 120_000 } as const;

type Step = Readonly<{ name: string; take: (app: Checkout) => Promise<ExecResult> }>;

const steps: readonly Step[] = [
  { name: 'create', take: (app) => app.flynn(['create', app.name], anyCode) },
  { name: 'push', take: (app) => app.push(anyCode) },
  { name: 'scale up', take: (app) => app.flynn(['scale', 'web=3'], anyCode) },
  { name: 'env set', take: (app) => app.flynn(['env', 'set', 'TEXT=first'], anyCode) },
  { name: 'run', take: (app) => app.flynn(['run', 'echo', 'text'], anyCode) },
  { name: 'log', take: (app) => app.flynn(['log', '-n', '10'], anyCode) },
  { name: 'ps', take: (app) => app.flynn(['ps'], anyCode) },
  { name: 'route add', take: (app) => app.flynn(['route', 'add', 'http', `${app.name}.example.com`], anyCode) },
  { name: 'env set again', take: (app) => app.flynn(['env', 'set', 'TEXT=second'], anyCode) },
  { name: 'rollback', take: (app) => app.flynn(['rollback', '-y'], anyCode) },
  { name: 'scale down', take: (app) => app.flynn(['scale', 'web=2'], anyCode) },
];
const deletion: Step = { name: 'delete', take: (app) => app.flynn(['delete', '-y'], anyCode) };

suite('the store stands still in the middle of each command', () => {
  let cluster: TestCluster;
  let undisturbed: Checkout;
  let disturbed: Checkout;
  before(async () => {
    cluster = await TestCluster.create(63);
    await cluster.up();
    undisturbed = await cluster.checkout('static', 'undisturbed', { isCreated: false });
    disturbed = await cluster.checkout('static', 'disturbed', { isCreated: false });
  });
  after(() => cluster?.[Symbol.asyncDispose]());

  for (const step of steps) {
    test(step.name, { timeout: 300_000 }, async (t) => {
      t.diagnostic(await taken(step, { undisturbed, disturbed }));
    });
  }

  test('the app is like one that nothing disturbed', async () => {
    assert.deepEqual(await untilAtRest(disturbed), await untilAtRest(undisturbed));
  });

  test(deletion.name, { timeout: 300_000 }, async (t) => {
    t.diagnostic(await taken(deletion, { undisturbed, disturbed }));
    const { stdout } = await cluster.flynn(['apps']);
    assert.doesNotMatch(stdout, /disturbed/);
  });
});

/** What came of it, for people. Meanwhile no other app notices, and nothing that ran is another. */
async function taken(step: Step, apps: { undisturbed: Checkout; disturbed: Checkout }): Promise<string> {
  const { cluster } = apps.disturbed;
  const beganMs = performance.now();
  assert.equal((await step.take(apps.undisturbed)).code, 0, 'undisturbed, it failed');
  const undisturbedMs = performance.now() - beganMs;

  const before = await cluster.containers('hello', 'web');
  const load = startSteadyLoad((signal) => cluster.get('hello', '/', { signal }), {
    lanes: 2,
    pauseMs: 50,
    maxMs: 200_000,
  });
  const taking = step.take(apps.disturbed);
  await systemClock.sleep(undisturbedMs / 2);
  cluster.host.freezeStore();
  await systemClock.sleep(standstillMs).finally(() => cluster.host.thawStore());
  const result = await taking;
  const outcome = result.code === 0 ? 'succeeded' : `said: ${result.stderr.trim().slice(-500)}`;
  if (result.code !== 0) {
    assert.doesNotMatch(result.stderr, /\n\s+at |internal error/, 'no error for people');
    await waitFor(async () => isDone(step, await step.take(apps.disturbed)), {
      what: `${step.name}, given again`,
      deadlineMs: againMs,
      intervalMs: 1_000,
    });
  }
  const { requests, failures } = await load.stop();
  assert.deepEqual(failures, [], `of ${requests} requests`);
  assert.deepEqual(await cluster.containers('hello', 'web'), before, 'containers that nobody touched');
  return `${Math.round(undisturbedMs)} ms undisturbed; with the store away for ${standstillMs} ms it ${outcome}`;
}

/** What was done the first time, although its answer was lost, is refused the second time with that reason. */
function isDone({ name }: Step, { code, stderr }: ExecResult): boolean {
  if (code === 0) return true;
  const reasons: Record<string, RegExp> = {
    create: /already|exists/,
    delete: /no app|not found/,
    'route add': /already/,
  };
  if (reasons[name]?.test(stderr)) return true;
  throw new Error(stderr);
}
