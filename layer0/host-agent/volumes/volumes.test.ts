import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { silentLogger } from '@flynn/kit/log';
import { createMemoryStore } from '@flynn/store/memory';
import { jobOf, openHost } from '../host-fixture.ts';
import { volumeName } from '../engine/labels.ts';
import { createMemoryEngine } from '../engine/memory.ts';
import { VolumeSizes } from './sizes.ts';
import { listHostVolumes, removeHostVolume } from './volumes.ts';
import type { VolumeDeps } from './volumes.ts';

const cluster = 'test';
const name = 'a1.db.data';

async function setUp(t: { signal: AbortSignal }) {
  const engine = createMemoryEngine({ cluster });
  const store = createMemoryStore();
  const fixture = await openHost({ engine, store });
  let isShipped = true;
  const { host, containers } = fixture;
  const sizes = new VolumeSizes({ engine, signal: t.signal, log: silentLogger() });
  const deps: VolumeDeps = { engine, containers, cluster, host, pump: { isShipped: () => isShipped }, sizes };
  const meta = { 'flynn.app': 'a1', 'flynn.app_name': 'shop', 'flynn.type': 'db' };
  const job = jobOf('one', { volumes: [{ name, path: '/data' }], meta });
  const options = { signal: t.signal };
  return {
    ...fixture,
    engine,
    job,
    list: () => listHostVolumes(deps, options),
    listWithSizes: () => listHostVolumes(deps, { ...options, hasSizes: true }),
    remove: () => removeHostVolume(deps, name, options),
    setShipped: (value: boolean) => (isShipped = value),
    [Symbol.asyncDispose]: () => fixture.stop(),
  };
}

const isRefused = (pattern: RegExp) => (error: unknown) => hasCode(error, 'conflict') && pattern.test(String(error));

test('a volume says whose it was made for and who has it; in use it stays, and then it goes with what held it', async (t) => {
  await using it = await setUp(t);
  const { job } = it;
  assert.deepEqual(await it.list(), []);
  await it.assign([job]);
  await it.reach(job, 'running', ({ state }) => state === 'running');
  // Of another cluster on this machine, by its name.
  await it.engine.ensureVolume(volumeName('other', name));
  const [volume, ...others] = await it.list();
  assert.deepEqual(others, []);
  assert.deepEqual([volume?.name, volume?.jobs, volume?.meta], [name, [job.id], job.template.meta]);
  assert.equal(volume?.bytes, undefined, 'who does not ask for sizes waits for none');
  assert.deepEqual(await it.listWithSizes(), [{ ...volume, bytes: 4_096 }]);
  await assert.rejects(it.remove(), isRefused(/in use by the job h1-one: nothing was removed/));
  await it.assign([]);
  await waitFor(async () => (await it.list())[0]?.jobs.length === 0, {
    what: 'the end of the job',
    deadlineMs: 60_000,
  });
  // Its container is kept for who looks at it.
  it.setShipped(false);
  await assert.rejects(it.remove(), isRefused(/h1-one's, which has ended and whose log is still being read/));
  assert.equal((await it.list()).length, 1);
  it.setShipped(true);
  await it.remove();
  assert.deepEqual(await it.list(), []);
  assert.deepEqual(it.containers.all(), []);
  await it.remove();
});

test('a job that waits to be started again has its volume; one that ended for good has not', async (t) => {
  await using it = await setUp(t);
  const restarting = { ...it.job, template: { ...it.job.template, command: ['sh', '-c', 'exit 3'] } };
  await it.assign([jobOf('two', { ...restarting.template })]);
  const two = jobOf('two', { ...restarting.template });
  await it.reach(two, 'a crash that is waited after', ({ state, restarts }) => state === 'crashed' && restarts > 0);
  await assert.rejects(it.remove(), isRefused(/in use by the job h1-two/));
  const done = jobOf('three', { ...restarting.template, restart: 'never' });
  await it.assign([done]);
  await it.reach(done, 'its end', ({ isFinal }) => isFinal);
  await waitFor(async () => (await it.list())[0]?.jobs.length === 0, {
    what: 'the end of the other',
    deadlineMs: 60_000,
  });
  await it.remove();
  assert.deepEqual(await it.list(), []);
});

test('while it is not known what jobs are to run, nothing is removed', async (t) => {
  await using it = await setUp(t);
  await it.engine.ensureVolume(volumeName(cluster, name));
  for (const [unresolved, told] of [
    ['yet', /still being read/],
    ['unreadable', /cannot be read by its version/],
  ] as const) {
    const deps: VolumeDeps = {
      engine: it.engine,
      containers: it.containers,
      cluster,
      host: { ...it.host, unresolved: () => unresolved },
      pump: { isShipped: () => true },
      sizes: { of: async () => new Map() },
    };
    await assert.rejects(removeHostVolume(deps, name, { signal: t.signal }), { code: 'unavailable', message: told });
  }
  assert.equal((await it.list()).length, 1);
});
