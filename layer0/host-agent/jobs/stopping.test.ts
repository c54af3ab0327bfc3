import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { listen } from '../engine/door-fixture.ts';
import type { Engine } from '../engine/engine.ts';
import { jobOf, openHost, scenario } from '../host-fixture.ts';

test('a stopping job leaves discovery, drains, and only then gets TERM', () =>
  scenario(async ({ engine, store }) => {
    const door = await listen();
    const ports = [{ port: door.port, protocol: 'tcp' as const, service: { name: 'web' } }];
    const job = jobOf('a', { ports, drainMs: 300 });
    /** What is in discovery when it gets TERM. */
    const announced: number[] = [];
    let termMs = 0;
    const watched: Engine = {
      ...engine,
      async stop(...of) {
        termMs = performance.now();
        announced.push(agent.announcer.instances.size);
        return engine.stop(...of);
      },
    };
    const agent = await openHost({ engine: watched, store });
    await agent.assign([job]);
    await agent.reach(job, 'running', (s) => s.state === 'running');
    const askedMs = performance.now();
    await agent.assign([{ ...job, desired: 'stop' }]);
    await agent.reach(job, 'done', (s) => s.isFinal);
    assert.deepEqual(announced, [0], 'it had left discovery by then');
    // Timers count whole milliseconds.
    assert.ok(termMs - askedMs >= 299, 'TERM came before the drain was over');
    await agent.stop();
    await door.close();
  }));

test('a stopping job gets TERM once every router said that it dropped it, and is said to run until then', () =>
  scenario(async ({ engine, store }) => {
    const door = await listen();
    const ports = [{ port: door.port, protocol: 'tcp' as const, service: { name: 'web' } }];
    const job = jobOf('a', { ports, drainMs: 0 });
    const dropped = Promise.withResolvers<string[]>();
    const asked: unknown[] = [];
    const announced: number[] = [];
    const ending = Promise.withResolvers<void>();
    const patient: Engine = { ...engine, stop: async (...of) => (await ending.promise, engine.stop(...of)) };
    const agent = await openHost({
      engine: patient,
      store,
      routers: {
        async missing(word) {
          asked.push(word);
          announced.push(agent.announcer.instances.size);
          return dropped.promise;
        },
        haveEnded: async () => true,
      },
    });
    await agent.assign([job]);
    await agent.reach(job, 'running', (s) => s.state === 'running');
    assert.deepEqual(asked, []);
    const stopped = { ...job, desired: 'stop' as const };
    await agent.assign([stopped]);
    await waitFor(() => asked.length > 0, { what: 'the routers to be asked', deadlineMs: 30_000, intervalMs: 5 });
    assert.deepEqual(asked, [{ services: [{ service: 'web', down: [job.id] }] }]);
    assert.deepEqual(announced, [0], 'it had left discovery by then');
    assert.equal((await engine.list())[0]?.state, 'running');
    // What happened before the other one ran is in the store by then.
    const other = jobOf('b');
    await agent.assign([stopped, other]);
    await agent.reach(other, 'running', (s) => s.state === 'running');
    assert.equal((await agent.statusOf(job))?.state, 'running', 'a router may still choose it');
    dropped.resolve(['192.0.2.1:1114']);
    await agent.reach(job, 'stopping', (s) => s.state === 'stopping');
    ending.resolve();
    await agent.reach(job, 'done', (s) => s.isFinal);
    await agent.stop();
    await door.close();
  }));

const kinds = [
  { what: 'an app', more: {}, deadlineMs: 1_000 },
  { what: 'an app that may take longer to stop', more: { stopTimeoutMs: 20_000 }, deadlineMs: 20_000 },
  {
    what: 'one with a volume of its own, in whose place nobody answers',
    more: { stopTimeoutMs: 20_000, volumes: [{ name: 'data', path: '/data' }] },
    deadlineMs: 5_000,
  },
  {
    what: 'a part of the platform, which ends its requests by itself',
    more: { identity: 'runner' },
    deadlineMs: undefined,
  },
];

for (const { what, more, deadlineMs } of kinds) {
  const title =
    deadlineMs === undefined
      ? 'is not waited for'
      : `gets TERM once its requests are answered, waited for up to ${deadlineMs} ms`;
  test(`${what}: a stopping job ${title}`, () =>
    scenario(async ({ engine, store }) => {
      const door = await listen();
      const ports = [{ port: door.port, protocol: 'tcp' as const, service: { name: 'web' } }];
      const job = jobOf('a', { ports, drainMs: 0, ...more });
      const answered = Promise.withResolvers<boolean>();
      const asked: unknown[] = [];
      const stops: string[] = [];
      const watched: Engine = { ...engine, stop: async (...of) => (stops.push(of[0]), engine.stop(...of)) };
      const agent = await openHost({
        engine: watched,
        store,
        routers: {
          missing: async () => [],
          async haveEnded(services, options) {
            asked.push({ services, deadlineMs: options.deadlineMs });
            return answered.promise;
          },
        },
      });
      await agent.assign([job]);
      await agent.reach(job, 'running', (s) => s.state === 'running');
      await agent.assign([{ ...job, desired: 'stop' }]);
      if (deadlineMs !== undefined) {
        await agent.reach(job, 'stopping', (s) => s.state === 'stopping');
        await waitFor(() => asked.length > 0, { what: 'the routers to be asked', deadlineMs: 30_000, intervalMs: 5 });
        assert.deepEqual(asked, [{ services: [{ service: 'web', ended: [job.id] }], deadlineMs }]);
        assert.deepEqual(stops, [], 'it has something to answer');
        answered.resolve(true);
      }
      await agent.reach(job, 'done', (s) => s.isFinal);
      assert.equal(stops.length, 1);
      assert.equal(asked.length, deadlineMs === undefined ? 0 : 1);
      await agent.stop();
      await door.close();
    }));
}

test('a job that somebody kills does not wait for its requests', () =>
  scenario(async ({ engine, store }) => {
    const door = await listen();
    const ports = [{ port: door.port, protocol: 'tcp' as const, service: { name: 'web' } }];
    const job = jobOf('a', { ports, drainMs: 0, restart: 'never' });
    const haveEnded = () => assert.fail('its requests are what it is killed for');
    const agent = await openHost({ engine, store, routers: { missing: async () => [], haveEnded } });
    await agent.assign([job]);
    await agent.reach(job, 'running', (s) => s.state === 'running');
    agent.host.requestStop(job.id);
    await agent.reach(job, 'its end', (s) => s.isFinal);
    await agent.stop();
    await door.close();
  }));
