import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { autoscaleType } from '@flynn/controller/autoscale/resource';
import { openDeskWithController } from '../testing.ts';

test('autoscale sets, shows and removes what a type is scaled by; ps and scale tell of it', async () => {
  await using env = await openDeskWithController();
  const { app } = await env.controller.deployApp('shop', {
    web: { ports: [{ port: 8080 }] },
    worker: {},
    db: { volumes: [{ name: 'd', path: '/d' }] },
  });
  const run = (...argv: string[]) => env.desk.run(['-a', 'shop', ...argv]);
  assert.match((await run('autoscale')).stdout, /^TYPE +MIN/);
  const made = await run('autoscale', 'set', 'web', '--min', '2', '--max', '10', '--cpu', '70%', '--requests', '300/m');
  assert.equal(made.stdout, 'web of shop is scaled by itself: 2 to 10, by cpu 70%, 5 requests/s\n');
  const changed = await run(
    'autoscale',
    'set',
    'web',
    '--requests',
    'none',
    '--in-flight',
    '20',
    '--window',
    '30s',
    '--down-after',
    '2m',
  );
  assert.equal(changed.stdout, 'web of shop is scaled by itself: 2 to 10, by cpu 70%, 20 in flight\n');
  await env.controller.stopWorker();
  const last = {
    at: new Date(Date.now() - 180_000).toISOString(),
    from: 2,
    to: 4,
    why: '4 wanted: a job has cpu 130% of 70%',
  };
  const seen = { at: last.at, wanted: 4, figures: 'cpu 130% of 70%' };
  const status = { last, seen, changes: 1 };
  await env.controller.deps.resources.updateStatus(autoscaleType, `${app.id}-web`, () => status);
  const row =
    /^web +2 +10 +cpu 70%, 20 in flight +cpu 130% of 70% +4 +30s +2m +2 to 4 3m ago: 4 wanted: a job has cpu 130% of 70%$/m;
  assert.match((await run('autoscale', 'show')).stdout, row);
  const line = /\nweb is scaled by itself, 2 to 10, by cpu 70%, 20 in flight; 2 to 4 3m ago: 4 wanted: a job has/;
  assert.match((await run('ps')).stdout, line);
  assert.match((await run('scale')).stdout, line);
  assert.doesNotMatch((await run('ps', '-t', 'worker')).stdout, /by itself/);
  assert.doesNotMatch((await run('ps', '-q')).stdout, /by itself/);
  const held = { reason: 'off' as const, why: 'it was scaled to none by hand', since: last.at };
  await env.controller.deps.resources.updateStatus(autoscaleType, `${app.id}-web`, () => ({ ...status, held }));
  assert.match((await run('scale')).stdout, /in flight; held: it was scaled to none by hand$/m);
  const refused = await run('scale', '-n', 'web=12');
  assert.equal(refused.code, 1);
  assert.match(
    refused.stderr,
    /web=12: web of shop is scaled by itself, from 2 to 10 jobs; another range: flynn -a shop autoscale set web --max 12/,
  );
  for (const [argv, code, pattern] of [
    [['set', 'web'], 2, /nothing to set/],
    [['set', 'web', '--cpu', 'much'], 2, /like 70%/],
    [['set', 'worker', '--max', '3'], 1, /say what it is scaled by/],
    [['set', 'db', '--max', '3', '--cpu', '50%'], 1, /keeps data in volumes/],
    [['remove', 'worker'], 1, /worker of shop is not scaled by itself/],
  ] as const) {
    const answer = await run('autoscale', ...argv);
    assert.equal(answer.code, code, answer.stderr);
    assert.match(answer.stderr, pattern);
  }
  assert.match((await run('autoscale', 'remove', 'web')).stdout, /web of shop is scaled by hand/);
  assert.doesNotMatch((await run('scale')).stdout, /by itself/);
});

test('a count in an app’s file is brought into the range before it is asked for, but for one that the same files give', async () => {
  await using env = await openDeskWithController();
  const { desk, controller } = env;
  await controller.deployApp('shop', { web: { ports: [{ port: 8080 }] } });
  await controller.stopWorker();
  const file = join(desk.home, 'shop.yaml');
  const apply = async (count: number, max: number): Promise<string> => {
    const app = `kind: App\nname: shop\nspec: { processes: { web: { count: ${count} } } }\n`;
    const setting = `kind: Autoscale\nname: shop/web\nowner: app/shop\nspec: { max: ${max}, cpuPercent: 70 }\n`;
    await writeFile(file, `${app}---\n${setting}`);
    const { code, stderr } = await desk.run(['apply', '-n', '-f', file]);
    assert.equal(code, 0, stderr);
    return (await desk.run(['-a', 'shop', 'scale'])).stdout;
  };
  assert.match(await apply(2, 3), /^web +2/m);
  assert.match(await apply(9, 3), /^web +3/m);
  assert.match(await apply(8, 10), /^web +8/m);
});
