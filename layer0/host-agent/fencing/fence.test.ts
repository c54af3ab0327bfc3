import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { describe, it } from 'node:test';
import type { TestContext } from 'node:test';
import { pause } from '@flynn/kit/clock';
import { hasCode } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { TaskGroup } from '@flynn/kit/tasks';
import { createMemoryStore } from '@flynn/store/memory';
import { Fence } from './fence.ts';
import { jobOf, openHost } from '../host-fixture.ts';
import type { HostFixture } from '../host-fixture.ts';
import { createMemoryEngine } from '../engine/memory.ts';

const volumes = [{ name: 'data', path: '/data' }];
const log = silentLogger();

type World = {
  agent: HostFixture;
  fence: Fence;
  lease: { expiresAtMs: number; lost: AbortSignal };
  /** The store says that it is gone. */
  lose: () => void;
  guarded: { deadlineMs: number | undefined; ids: readonly string[] }[];
  /** Of what an agent before left. */
  limits: number[];
  setAlone: (isAlone: boolean) => void;
};

/** Where the machine stands still, performance.now() goes on by a moment only: an agent that does not run stops nothing. */
function withoutStandstills(t: TestContext): void {
  const now = performance.now.bind(performance);
  let seenMs = now();
  let nowMs = seenMs;
  const look = (): number => {
    const atMs = now();
    nowMs += Math.min(atMs - seenMs, 20);
    seenMs = atMs;
    return nowMs;
  };
  const looking = setInterval(look, 5);
  t.after(() => clearInterval(looking));
  t.mock.method(performance, 'now', look);
}

async function withFence(t: TestContext, run: (world: World) => Promise<void>): Promise<void> {
  withoutStandstills(t);
  const engine = createMemoryEngine();
  const store = createMemoryStore();
  const tasks = new TaskGroup();
  const guarded: World['guarded'] = [];
  const limits: number[] = [];
  let isAlone = false;
  let fence: Fence | undefined;
  const agent = await openHost({
    engine,
    store,
    mayStartSingletons: () => fence?.isOpen === true,
    beforeStart: async (job, id) => {
      if (job.template.volumes.length > 0) await fence?.admit(id);
    },
  });
  fence = new Fence({
    engine,
    containers: agent.containers,
    watchdog: {
      guard: async (deadlineMs, ids) => void guarded.push({ deadlineMs, ids }),
      limit: async (deadlineMs) => void limits.push(deadlineMs),
    },
    isAlone: () => isAlone,
    onStop: (container) =>
      agent.host.jobs.update(container.labels['flynn.job'] ?? '', (was) => ({ ...was, stopCause: { type: 'fenced' } })),
    log,
  });
  const guarding = fence;
  tasks.run('fence', (signal) => guarding.run(signal));
  const lost = new AbortController();
  const lease = { expiresAtMs: performance.now() + 8_000, lost: lost.signal };
  const setAlone = (value: boolean) => (isAlone = value);
  try {
    await run({ agent, fence: guarding, lease, lose: () => lost.abort(), guarded, limits, setAlone });
  } finally {
    await tasks.stop();
    await agent.stop();
    await store.close();
    engine.losePower();
  }
}

describe('a job of which there must never be two', () => {
  it('waits for the lease, is guarded before it starts, and stopped when the lease is not renewed', async (t) => {
    await withFence(t, async ({ agent, fence, lease, guarded }) => {
      const single = jobOf('db', { volumes, command: ['sh', '-c', "trap '' TERM; sleep 1000"] });
      const other = jobOf('web');
      await agent.assign([single, other]);
      await agent.reach(other, 'running', (s) => s.state === 'running');
      assert.equal((await agent.statusOf(single))?.startedAt, undefined);

      fence.hold(lease);
      await agent.reach(single, 'running', (s) => s.state === 'running');
      const container = agent.containers.ofJob(single.id);
      assert.ok(guarded.some(({ ids, deadlineMs }) => ids.includes(container?.id ?? '') && deadlineMs !== undefined));

      // No renewal came: two seconds are left, in which it has to end.
      lease.expiresAtMs = performance.now() + 1_900;
      const ended = await agent.reach(single, 'stopped', (s) => s.endedAt !== undefined);
      assert.ok(performance.now() < lease.expiresAtMs, 'before the lease can have expired');
      assert.match(ended.error ?? '', /could not renew its lease/);
      assert.equal(ended.isFinal, false);
      assert.equal((await agent.statusOf(other))?.state, 'running');
      assert.equal(fence.stops, 1);

      // A new lease, and it is still this host's: it goes on.
      fence.hold({ expiresAtMs: performance.now() + 8_000, lost: new AbortController().signal });
      await agent.reach(single, 'running again', (s) => s.state === 'running' && s.restarts > 0);
    });
  });

  it('is stopped while another machine is this host, though the lease is renewed, and goes on once there is none', async (t) => {
    await withFence(t, async ({ agent, fence, lease, setAlone }) => {
      const single = jobOf('db', { volumes });
      fence.hold(lease);
      await agent.assign([single]);
      await agent.reach(single, 'running', (s) => s.state === 'running');
      setAlone(true);
      fence.close();
      assert.equal(fence.isOpen, false);
      await assert.rejects(fence.admit('c1'), /another machine is this host/);
      await agent.reach(single, 'stopped', (s) => s.endedAt !== undefined);
      fence.hold(lease);
      await agent.reach(single, 'running again', (s) => s.state === 'running' && s.restarts > 0);
    });
  });

  it('has its two seconds while another machine is this host, however long the lease is, alone or not, and where nothing answers', async (t) => {
    await withFence(t, async ({ agent, fence, lease, guarded, limits, setAlone }) => {
      const single = jobOf('db', { volumes, command: ['sh', '-c', "trap '' TERM; sleep 1000"] });
      lease.expiresAtMs += 60_000;
      const closedMs = performance.now();
      fence.close();
      const end = (ms: number | undefined) => Math.round((ms ?? Infinity) - closedMs);
      await waitFor(() => limits.length > 0, { what: 'what was left to be limited', deadlineMs: 30_000 });
      assert.ok(end(limits.at(-1)) <= 1_600, 'of what the agent before left');
      fence.hold(lease);
      await agent.assign([single]);
      await agent.reach(single, 'running', (s) => s.state === 'running');
      setAlone(true);
      const before = guarded.length;
      const againMs = performance.now();
      fence.close();
      await waitFor(() => guarded.length > before + 2, { what: 'more looks', deadlineMs: 30_000 });
      lease.expiresAtMs += 7_000;
      fence.close();
      const later = guarded.length;
      await waitFor(() => guarded.length > later, { what: 'one more look', deadlineMs: 30_000 });
      const deadlines = new Set(guarded.slice(before + 1).map(({ deadlineMs }) => deadlineMs));
      assert.equal(deadlines.size, 1, 'it does not move');
      const [deadlineMs = Infinity] = deadlines;
      assert.ok(deadlineMs - againMs <= 1_600, String(deadlineMs - againMs));
    });
  });

  it('runs on without a lease while the cluster has no other host', async (t) => {
    await withFence(t, async ({ agent, fence, lease, guarded, setAlone }) => {
      setAlone(true);
      const single = jobOf('db', { volumes });
      fence.hold(lease);
      await agent.assign([single]);
      await agent.reach(single, 'running', (s) => s.state === 'running');
      lease.expiresAtMs = performance.now() - 1;
      const before = guarded.length;
      await waitFor(() => guarded.length > before + 1, { what: 'two more looks', deadlineMs: 30_000 });
      assert.equal(guarded.at(-1)?.deadlineMs, undefined);
      assert.equal(fence.stops, 0);
      assert.equal(agent.containers.ofJob(single.id)?.state, 'running');
    });
  });

  it('of an agent before has no more time than the lease to come; then the lease counts, until a longer one does', async (t) => {
    await withFence(t, async ({ agent, fence, lease, guarded, limits }) => {
      await fence.expect(lease);
      assert.deepEqual(limits, [lease.expiresAtMs - 500]);
      // Renewed while this agent has yet to learn what was decided before it.
      lease.expiresAtMs += 1_000;
      await waitFor(() => limits.at(-1) === lease.expiresAtMs - 500, { what: 'more time', deadlineMs: 30_000 });
      const single = jobOf('db', { volumes });
      fence.hold(lease);
      const before = limits.length;
      await fence.expect(lease);
      assert.equal(limits.length, before);
      await agent.assign([single]);
      await agent.reach(single, 'running', (s) => s.state === 'running');
      const longer = { ...lease, expiresAtMs: lease.expiresAtMs + 23_000 };
      await fence.extend(longer);
      const last = guarded.at(-1);
      assert.equal(last?.deadlineMs, longer.expiresAtMs - 500);
      assert.deepEqual(last.ids, [agent.containers.ofJob(single.id)?.id]);
    });
  });

  it('is stopped, and none is started, from the moment the store says that the lease is gone, whatever the clock says', async (t) => {
    await withFence(t, async ({ agent, fence, lease, lose, guarded }) => {
      const single = jobOf('db', { volumes, command: ['sh', '-c', "trap '' TERM; sleep 1000"] });
      fence.hold(lease);
      await agent.assign([single]);
      await agent.reach(single, 'running', (s) => s.state === 'running');
      // As on a machine that was paused: by its clock there is time.
      lease.expiresAtMs = performance.now() + 60_000;
      const lostMs = performance.now();
      lose();
      assert.equal(fence.isOpen, false);
      await assert.rejects(fence.admit('c2'), (error) => hasCode(error, 'unavailable'));
      const ended = await agent.reach(single, 'stopped', (s) => s.endedAt !== undefined);
      assert.match(ended.error ?? '', /could not renew its lease/);
      assert.ok((guarded.at(-1)?.deadlineMs ?? Infinity) - lostMs <= 1_600, 'else the watchdog ends it');
      fence.hold({ expiresAtMs: performance.now() + 8_000, lost: new AbortController().signal });
      await agent.reach(single, 'running again', (s) => s.state === 'running' && s.restarts > 0);
    });
  });

  it('has no more time because the lease that is gone is held once more, and a lease that is held again is followed once', async (t) => {
    await withFence(t, async ({ fence, lease, lose }) => {
      lease.expiresAtMs += 60_000;
      for (let at = 0; at < 50; at += 1) fence.hold(lease);
      assert.equal(getEventListeners(lease.lost, 'abort').length, 1);
      lose();
      const leftMs = fence.leftMs ?? Infinity;
      await pause(20, new AbortController().signal);
      fence.hold(lease);
      assert.ok((fence.leftMs ?? Infinity) < leftMs);
      assert.equal(fence.isOpen, false);
    });
  });

  it('is not admitted when the lease ends between the plan and the start', async (t) => {
    await withFence(t, async ({ fence, lease }) => {
      await assert.rejects(fence.admit('c1'), (error) => hasCode(error, 'unavailable'));
      fence.hold(lease);
      await fence.admit('c1');
      lease.expiresAtMs = performance.now() + 1_000;
      await assert.rejects(fence.admit('c2'), (error) => hasCode(error, 'unavailable'));
    });
  });
});
