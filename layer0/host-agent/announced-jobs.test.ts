import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { AsyncQueue } from '@flynn/kit/queue';
import { waitFor } from '@flynn/kit/retry';
import { freePort } from '@flynn/kit/testing-ports';
import type { Engine, EngineEvent } from './engine.ts';
import { volumeName } from './labels.ts';
import { hostId, jobOf, openHost, scenario } from './host-fixture.ts';

const quick = {
  type: 'tcp',
  path: '/',
  intervalMs: 20,
  timeoutMs: 60_000,
  threshold: 2,
  startTimeoutMs: 30_000,
} as const;

/** Somebody listens where the memory engine says its containers are. */
async function listen(port = 0): Promise<{ port: number; close(): Promise<void> }> {
  const server = createServer((socket) => socket.destroy());
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    close: () => new Promise((resolve) => server.close(() => resolve())),
  };
}

test('a restarted agent adopts what runs, restarts nothing and announces it again', () =>
  scenario(async ({ engine, store }) => {
    const door = await listen();
    const job = jobOf('a', { ports: [{ port: door.port, protocol: 'tcp', service: { name: 'web' } }] });
    const first = await openHost({ engine, store });
    await first.assign([job]);
    await first.reach(job, 'running', (s) => s.state === 'running');
    await first.stop();
    assert.deepEqual(first.announcer.calls, ['register web']);
    const [before] = await engine.list();

    const second = await openHost({ engine, store });
    await waitFor(() => second.announcer.instances.has(`web/${job.id}`), {
      what: 'the announcement',
      deadlineMs: 30_000,
    });
    assert.deepEqual(await engine.list(), [before]);
    const status = await second.statusOf(job);
    assert.equal(status?.state, 'running');
    assert.equal(status?.restarts, 0);
    await second.stop();
    await door.close();
  }));

test('a job that became unhealthy while no agent was there leaves discovery', () =>
  scenario(async ({ engine, store }) => {
    const door = await listen();
    // It is not given up within this test.
    const check = { ...quick, startTimeoutMs: 600_000 };
    const ports = [{ port: door.port, protocol: 'tcp' as const, service: { name: 'web', check } }];
    const job = jobOf('a', { ports });
    const first = await openHost({ engine, store });
    await first.assign([job]);
    await first.reach(job, 'running', (s) => s.state === 'running');
    await first.stop();
    await door.close();
    const { announcer } = first;
    assert.equal(announcer.instances.size, 1);

    const second = await openHost({ engine, store, announcer });
    await waitFor(() => announcer.instances.size === 0, { what: 'it to leave discovery', deadlineMs: 30_000 });
    assert.deepEqual(announcer.calls, ['register web', 'deregister web']);
    await second.stop();
  }));

test('a job is in discovery only while it is healthy', () =>
  scenario(async ({ engine, store }) => {
    let door = await listen(await freePort());
    const { port } = door;
    const job = jobOf('a', {
      meta: { app: 'x' },
      ports: [{ port, protocol: 'tcp', service: { name: 'web', check: quick } }],
    });
    const agent = await openHost({ engine, store });
    await agent.assign([job]);
    await agent.reach(job, 'running', (s) => s.state === 'running');
    assert.deepEqual(agent.announcer.instances.get(`web/${job.id}`), {
      service: 'web',
      id: job.id,
      address: `127.0.0.1:${port}`,
      attributes: { app: 'x', host: hostId, 'flynn.group': 'w1' },
    });
    await door.close();
    await waitFor(() => agent.announcer.instances.size === 0, { what: 'it to leave discovery', deadlineMs: 30_000 });
    await agent.reach(job, 'unhealthy', (s) => s.state === 'starting' && s.error?.includes('unhealthy') === true);
    door = await listen(port);
    await agent.reach(job, 'running again', (s) => s.state === 'running' && s.error === undefined);
    assert.equal(agent.announcer.instances.size, 1);
    await agent.stop();
    await door.close();
  }));

test('a job that never becomes healthy is stopped and counts as crashed', () =>
  scenario(async ({ engine, store }) => {
    const check = { ...quick, startTimeoutMs: 250 };
    const ports = [{ port: await freePort(), protocol: 'tcp' as const, service: { name: 'web', check } }];
    const agent = await openHost({ engine, store });
    const job = jobOf('a', { restart: 'never', ports });
    await agent.assign([job]);
    const crashed = await agent.reach(job, 'crashed', (s) => s.state === 'crashed');
    assert.match(crashed.error ?? '', /not healthy .* after its start: nothing accepts connections/);
    assert.equal(crashed.unhealthySince, undefined);
    assert.equal((await engine.list())[0]?.state, 'exited');
    assert.ok(!agent.announcer.calls.includes('register web'));
    await agent.stop();
  }));

test('a job that hangs is stopped, which its log tells, and started again', () =>
  scenario(async ({ engine, store }) => {
    let door = await listen(await freePort());
    const { port } = door;
    const check = { ...quick, restartAfterMs: 20 };
    const job = jobOf('a', { ports: [{ port, protocol: 'tcp', service: { name: 'web', check } }] });
    const notes: string[] = [];
    const agent = await openHost({ engine, store, note: (_container, message) => notes.push(message) });
    await agent.assign([job]);
    await agent.reach(job, 'running', (s) => s.state === 'running');
    await door.close();
    const again = await agent.reach(job, 'started again', (s) => s.restarts === 1 && s.lastError !== undefined);
    const why = /^its check failed for \d+ s, so it was stopped: nothing accepts connections on port/;
    assert.match(again.lastError ?? '', why);
    assert.equal(again.unhealthySince, undefined);
    assert.equal(notes.length, 1);
    assert.match(notes[0] ?? '', why);
    door = await listen(port);
    await agent.reach(job, 'running again', (s) => s.state === 'running');
    await agent.stop();
    await door.close();
  }));

test('since when a job fails is told, also by the next agent, until it is healthy', () =>
  scenario(async ({ engine, store }) => {
    let door = await listen(await freePort());
    const { port } = door;
    const check = { ...quick, restartAfterMs: 0, startTimeoutMs: 1 };
    const job = jobOf('a', { ports: [{ port, protocol: 'tcp', service: { name: 'web', check } }] });
    const first = await openHost({ engine, store });
    await first.assign([job]);
    const { startedAt = 0 } = await first.reach(job, 'running', (s) => s.state === 'running');
    await door.close();
    const { unhealthySince = 0 } = await first.reach(job, 'unhealthy', (s) => s.unhealthySince !== undefined);
    assert.ok(unhealthySince >= startedAt, 'it fails later than it began');
    await first.stop();
    const second = await openHost({ engine, store });
    const other = jobOf('b');
    await second.assign([job, other]);
    await second.reach(other, 'running', (s) => s.state === 'running');
    assert.equal((await second.statusOf(job))?.unhealthySince, unhealthySince);
    door = await listen(port);
    const well = await second.reach(job, 'running again', (s) => s.state === 'running');
    assert.deepEqual([well.unhealthySince, well.restarts], [undefined, 0]);
    await second.stop();
    await door.close();
  }));

test('a job that did not come up in time has longer at its next start', () =>
  scenario(async ({ engine, store }) => {
    const check = { ...quick, startTimeoutMs: 1_000 };
    const ports = [{ port: await freePort(), protocol: 'tcp' as const, service: { name: 'web', check } }];
    const agent = await openHost({ engine, store });
    const job = jobOf('a', { ports });
    const told: string[] = [];
    agent.host.jobs.onChange(() => {
      const { state, error = '' } = agent.host.jobs.get(job.id)?.status ?? {};
      if (state === 'crashed' && error !== told.at(-1)) told.push(error);
    });
    await agent.assign([job]);
    await waitFor(() => told.length >= 2, { what: 'two starts in vain', deadlineMs: 60_000 });
    for (const [at, seconds] of [1, 2].entries()) {
      assert.match(told[at] ?? '', new RegExp(`not healthy ${seconds} s after its start`));
    }
    await agent.stop();
  }));

test('a stopping job leaves discovery, drains, and only then gets TERM', () =>
  scenario(async ({ engine, store }) => {
    const door = await listen();
    const ports = [{ port: door.port, protocol: 'tcp' as const, service: { name: 'web' } }];
    const job = jobOf('a', { ports, drainMs: 300 });
    /** What is in discovery when it gets TERM. */
    const announced: number[] = [];
    const watched: Engine = {
      ...engine,
      async stop(...of) {
        announced.push(agent.announcer.instances.size);
        return engine.stop(...of);
      },
    };
    const agent = await openHost({ engine: watched, store });
    await agent.assign([job]);
    await agent.reach(job, 'running', (s) => s.state === 'running');
    const askedAt = Date.now();
    await agent.assign([{ ...job, desired: 'stop' }]);
    const done = await agent.reach(job, 'done', (s) => s.isFinal);
    assert.deepEqual(announced, [0], 'it had left discovery by then');
    // Both are cut to milliseconds.
    assert.ok((done.endedAt ?? 0) - askedAt >= 298, 'TERM came before the drain was over');
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

test('a job whose volume the engine has no more waits for it; with one it can do without it begins again, and says so', () =>
  scenario(async ({ engine, store }) => {
    const agent = await openHost({ engine, store });
    const volumes = [{ name: 'data', path: '/data' }];
    const job = jobOf('a', { volumes });
    const cache = jobOf('b', { volumes: [{ name: 'cache', path: '/data', isReplaceable: true }] });
    await agent.assign([job, cache]);
    for (const one of [job, cache]) await agent.reach(one, 'running', (s) => s.state === 'running');
    const loseContainers = async () => {
      for (const { id } of await engine.list()) await engine.remove(id);
    };
    await loseContainers();
    await agent.containers.refresh();
    for (const one of [job, cache]) {
      const kept = await agent.reach(one, 'running again', (s) => s.state === 'running' && s.restarts === 1);
      assert.doesNotMatch(kept.lastError ?? '', /volume/);
    }
    await loseContainers();
    for (const { name } of await engine.listVolumes()) await engine.removeVolume(name);
    await agent.containers.refresh();
    const empty = await agent.reach(cache, 'running once more', (s) => s.state === 'running' && s.restarts === 2);
    assert.match(empty.lastError ?? '', /has its volume cache no more: it began again with an empty one/);
    const held = await agent.reach(job, 'held', (s) => s.state === 'failed');
    assert.match(held.error ?? '', /has its volume data no more: where a disk .* scale the process to 0 and back/);
    assert.equal(held.isFinal, false);
    assert.equal((await engine.list()).length, 1);

    await engine.ensureVolume(volumeName('test', 'data'));
    await agent.reach(job, 'running with its data', (s) => s.state === 'running');
    await agent.stop();
  }));

test('a container removed behind its back is a crash, and nothing of its watch is left over', () =>
  scenario(async ({ engine, store }) => {
    const door = await listen();
    const service = jobOf('a', {
      ports: [{ port: door.port, protocol: 'tcp', service: { name: 'web', check: quick } }],
    });
    const single = jobOf('b', { restart: 'never' });
    // Nothing is heard of the end: the next list shows that it is gone.
    const deaf: Engine = {
      ...engine,
      events({ signal }) {
        const queue = new AsyncQueue<EngineEvent>();
        signal.addEventListener('abort', () => queue.end(), { once: true });
        return queue;
      },
    };
    const agent = await openHost({ engine: deaf, store });
    await agent.assign([service, single]);
    for (const job of [service, single]) await agent.reach(job, 'running', (s) => s.state === 'running');
    for (const container of await engine.list()) await engine.remove(container.id);
    await agent.containers.refresh();
    const lost = await agent.reach(single, 'over', (s) => s.isFinal);
    assert.equal(lost.state, 'crashed');
    assert.match(lost.error ?? '', /removed/);
    await agent.reach(service, 'running again', (s) => s.state === 'running' && s.restarts === 1);
    assert.deepEqual(agent.announcer.calls, ['register web', 'deregister web', 'register web']);
    assert.equal((await engine.list()).length, 1);
    await agent.stop();
    await door.close();
  }));
