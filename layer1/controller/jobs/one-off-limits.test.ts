import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { cellKeys } from '@flynn/scheduler/cell';
import { jobTemplateSchema } from '@flynn/scheduler/job-template';
import { apps, jobs } from '../api.ts';
import { compileOneOff } from '../processes/compile.ts';
import { runnableApp } from '../deps.ts';
import { checkOneOffLimits, oneOffDefaults, oneOffLimitsOf } from './one-off-limits.ts';
import { appType } from '../resources.ts';
import { startTestController } from '../testing.ts';

const gibibyte = 1024 ** 3;

test('what runs once may take what the app’s metadata says of its kind, else what the platform says', () => {
  const limits = oneOffLimitsOf({ 'run.memory': '4GB', 'release.cpu': '2500', 'cron.memory': 'lots' });
  assert.deepEqual(limits, {
    run: { memoryBytes: 4 * gibibyte, cpuMillis: 1_000 },
    cron: oneOffDefaults,
    release: { memoryBytes: gibibyte, cpuMillis: 2_500 },
  });
});

test('what cannot be read is refused when it is written, and what was there before stands in nobody’s way', () => {
  checkOneOffLimits({ 'run.memory': '4GB', 'run.cpu': '0', note: 'lots' });
  for (const [key, text] of [
    ['run.memory', 'lots'],
    ['cron.memory', '0'],
    ['release.cpu', '1.5'],
    ['release.cpu', '1000001'],
  ] as const) {
    const refused = (error: unknown) =>
      hasCode(error, 'invalid') && error.message.startsWith(`${key}=${text} is no limit`);
    assert.throws(() => checkOneOffLimits({ [key]: text }), refused);
    checkOneOffLimits({ [key]: text }, { [key]: text });
  }
});

test('commands, cron lines and scripts get them; whoever runs one command may say otherwise', async () => {
  await using world = await startTestController();
  await world.deployApp('shop', { web: {} });
  const params = { app: 'shop' };
  const meta = { 'run.memory': '4GB', 'run.cpu': '2000', 'cron.memory': '2GB', 'release.memory': '3GB' };
  await world.client.call(apps.update, { params, body: { meta } });
  await assert.rejects(
    world.client.call(apps.update, { params, body: { meta: { ...meta, 'cron.memory': 'lots' } } }),
    (error) => hasCode(error, 'invalid') && error.message.includes('flynn limit cron memory=2GB'),
  );
  await assert.rejects(
    world.client.call(apps.create, { body: { name: 'other', meta: { 'run.cpu': 'all' } } }),
    (error) => hasCode(error, 'invalid'),
  );
  const { id } = await world.client.call(apps.get, { params });
  const app = runnableApp(await world.deps.resources.get(appType, id));
  const artifact = { type: 'image' as const, image: { name: 'shop:1' } };
  const limitsOf = (type: string | undefined, more: { memoryBytes?: number; cpuMillis?: number } = {}) => {
    const oneOff = { workloadId: `${id}-x`, command: ['sh'], env: {}, tty: false, stdin: false, ...more };
    const said = type === undefined ? oneOff : { ...oneOff, type };
    return compileOneOff({ app, release: { id: 'r', env: {}, processes: {} }, artifact }, said).template.limits;
  };
  assert.deepEqual(limitsOf(undefined), { memoryBytes: 4 * gibibyte, cpuMillis: 2_000 });
  assert.deepEqual(limitsOf('cron'), { memoryBytes: 2 * gibibyte, cpuMillis: 1_000 });
  for (const type of ['release', 'postdeploy'])
    assert.deepEqual(limitsOf(type), { memoryBytes: 3 * gibibyte, cpuMillis: 1_000 });
  assert.deepEqual(limitsOf(undefined, { memoryBytes: gibibyte }), { memoryBytes: gibibyte, cpuMillis: 2_000 });
  const run = async (more: { memoryBytes?: number; cpuMillis?: number }) => {
    const { workloadId } = await world.client.call(jobs.run, { params, body: { command: ['sh'], ...more } });
    const { entries } = await world.deps.store.list(`${cellKeys.templates}${workloadId}/`);
    return entries.map(({ value }) => jobTemplateSchema.parse(JSON.parse(value)).limits);
  };
  assert.deepEqual(await run({}), [{ memoryBytes: 4 * gibibyte, cpuMillis: 2_000 }]);
  assert.deepEqual(await run({ memoryBytes: gibibyte, cpuMillis: 250 }), [{ memoryBytes: gibibyte, cpuMillis: 250 }]);
});
