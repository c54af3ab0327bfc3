import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { waitFor, withDeadline } from '@flynn/kit/retry';
import { formations } from '../api.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';
import { generic, objectSchema } from './api.ts';
import { callsTo, flynn, invalid, paths } from './testing.ts';

let world: TestController;
before(async () => {
  world = await startTestController();
});
after(async () => {
  await world[Symbol.asyncDispose]();
});

const { apply, get } = callsTo(() => world.client);

test('a formation is scaled by the same rules as by hand, and tells whether it is placed and healthy', async () => {
  await world.deployApp('counted', { web: { memoryBytes: 8 * 1024 ** 3 } });
  const scaled = await apply('Formation', { name: 'counted', spec: { processes: { web: 2 } } });
  assert.deepEqual([scaled.outcome, paths(scaled)], ['configured', ['spec.processes.web']]);
  await world.jobsOf('counted', 2);
  const shown = await waitFor(
    async () => {
      const formation = await get('Formation', 'counted/v1');
      return formation.outlook === 'ready' ? formation : undefined;
    },
    { what: 'a healthy formation', deadlineMs: 60_000, intervalMs: 10 },
  );
  assert.deepEqual(
    [shown.status, shown.spec, shown.owner],
    [{ up: { web: 2 } }, { processes: { web: 2 } }, 'app/counted'],
  );
  const same = await world.client.call(formations.get, { params: { app: 'counted', release: 'v1' } });
  assert.deepEqual(same.processes, { web: 2 });
  assert.equal((await apply('Formation', { name: 'counted', spec: { processes: { web: 2 } } })).outcome, 'unchanged');
  const unknown = apply('Formation', { name: 'counted', spec: { processes: { wep: 2 } } });
  await assert.rejects(unknown, invalid(/spec\.processes\.wep: .*no process type "wep"/));
  await assert.rejects(apply('Formation', { name: 'nobody', spec: { processes: {} } }), invalid(/name: it is an app/));
  const many = await apply('Formation', { name: 'counted', spec: { processes: { web: 100 } } });
  assert.equal(many.outcome, 'configured');
  const full = await waitFor(
    async () => {
      const { conditions } = await get('Formation', 'counted');
      return conditions.find(({ type, status }) => type === 'Placed' && status === 'False');
    },
    { what: 'what waits for a place', deadlineMs: 60_000, intervalMs: 20 },
  );
  assert.match(full.message, /\d+ without a host/);
  await apply('Formation', { name: 'counted', spec: { processes: { web: 1 } } });
});

test('a watch of formations tells what becomes of their jobs, also to who comes back to it', async () => {
  await using world = await startTestController();
  const { client, store } = world;
  const params = flynn('Formation');
  const open = (lastEventId?: string) =>
    client.events(
      generic.watch,
      { params, query: {} },
      { signal: withDeadline(60_000), ...(lastEventId === undefined ? {} : { lastEventId }) },
    );
  /** Reads on until it is told so; gives the last id to go on after. */
  const until = async (events: ReturnType<typeof open>, name: string, outlook: string) => {
    let id: string | undefined;
    for (;;) {
      const { value } = await events.next();
      assert.ok(value !== undefined, `it ended before ${name} was ${outlook}`);
      id = value.id ?? id;
      if (value.event !== 'put') continue;
      const object = objectSchema.parse(value.data);
      if (object.name === name && object.outlook === outlook) return id;
    }
  };
  const { app, release } = await world.deployApp('shop', { web: {} });
  const events = open();
  await until(events, 'shop/v1', 'ready');
  assert.equal((await events.next()).value?.event, 'current');
  const setState = async (state: string) => {
    const { entries } = await store.list('/flynn/cell/status/');
    const entry = entries.find(({ value }) => JSON.parse(value).workloadId.startsWith(app.id));
    assert.ok(entry !== undefined);
    const value = JSON.stringify({ ...JSON.parse(entry.value), state });
    await store.transact({ then: [{ put: entry.key, value }] });
  };
  await setState('crashed');
  await until(events, 'shop/v1', '0 of 1 web are up');
  await setState('running');
  await until(events, 'shop/v1', 'ready');
  await client.call(formations.put, { params: { app: app.id, release: release.id }, body: { processes: { web: 2 } } });
  const id = await until(events, 'shop/v1', 'ready');
  assert.ok(id !== undefined);
  await events.return();

  await setState('crashed');
  const again = open(id);
  await until(again, 'shop/v1', '1 of 2 web are up');
  await again.return();
});
