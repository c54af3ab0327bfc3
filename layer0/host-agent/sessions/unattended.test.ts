import assert from 'node:assert/strict';
import { duplexPair } from 'node:stream';
import { test } from 'node:test';
import { FlynnError } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { attachClient } from './attach.ts';
import type { Container } from '../engine/engine.ts';
import { hostId, jobOf, openHost, scenario } from '../host-fixture.ts';
import { Sessions } from './session.ts';
import { Unattended, endUnattended } from './unattended.ts';

const alone = (id: string) => ({ id, isAttended: false });
const runningOf = (id: string): Container => ({
  id,
  name: id,
  labels: {},
  state: 'running',
  imageId: 'image',
  tty: false,
  volumes: [],
  createdAtMs: 0,
  isOutOfMemory: false,
});
const nothing = { hangUp: [], stop: [] };

test('a job that nobody is with is told so when its time is over, and stopped a look later', () => {
  const unattended = new Unattended({ patienceMs: 100 });
  assert.deepEqual(unattended.look([alone('a')], 0), nothing);
  assert.deepEqual(unattended.look([alone('a'), alone('b')], 99), nothing);
  assert.deepEqual(unattended.look([alone('a'), alone('b')], 100), { hangUp: ['a'], stop: [] });
  assert.deepEqual(unattended.look([alone('a'), alone('b')], 150), { hangUp: [], stop: ['a'] });
  assert.deepEqual(unattended.look([alone('b')], 199), { hangUp: ['b'], stop: [] });
});

test('its time begins anew whenever its last client goes', () => {
  const unattended = new Unattended({ patienceMs: 100 });
  unattended.look([alone('a')], 0);
  assert.deepEqual(unattended.look([{ id: 'a', isAttended: true }], 100), nothing);
  assert.deepEqual(unattended.look([alone('a')], 150), nothing);
  assert.deepEqual(unattended.look([alone('a')], 249), nothing);
  assert.deepEqual(unattended.look([alone('a')], 250), { hangUp: ['a'], stop: [] });
});

test('a container that cannot be signalled keeps no other job alive, and its own is stopped in its turn', async () => {
  const unattended = new Unattended({ patienceMs: 100 });
  const jobs = ['stuck', 'other'].map((id) => jobOf(id, { restart: 'never', stdin: true }));
  const ids = jobs.map(({ id }) => id);
  const signals: string[] = [];
  const stopped: string[] = [];
  const deps = {
    engine: {
      signal: async (id: string) => {
        if (id === ids[0]) throw new FlynnError('timeout', 'the engine does not answer');
        signals.push(id);
      },
    },
    containers: { ofJob: (id: string) => runningOf(id) },
    sessions: { get: () => undefined },
    assigned: () => jobs,
    requestStop: (jobId: string) => void stopped.push(jobId),
    note: () => {},
    log: silentLogger(),
  };
  for (const nowMs of [0, 100]) await endUnattended(deps, unattended, nowMs);
  assert.deepEqual(signals, ids.slice(1));
  await endUnattended(deps, unattended, 130);
  assert.deepEqual(stopped, ids);
});

test('what does not read its input goes on without its client for a while, and not for ever; what was detached does', () =>
  scenario(async ({ engine, store }) => {
    const sessions = new Sessions(engine);
    const command = ['sh', '-c', 'exec sleep 10000'];
    const attended = jobOf('attended', { restart: 'never', stdin: true, command });
    const detached = jobOf('detached', { restart: 'never', command });
    const agent = await openHost({
      engine,
      store,
      async beforeStart(job, containerId) {
        if (job.template.stdin) await sessions.open(job.id, containerId, { logs: false });
      },
    });
    await agent.assign([attended, detached]);
    for (const job of [attended, detached]) await agent.reach(job, 'running', ({ state }) => state === 'running');
    const { containers, host } = agent;
    const { assigned, requestStop } = host;
    const notes: string[] = [];
    const signals: string[] = [];
    const note = (_container: unknown, message: string) => void notes.push(message);
    const telling = { signal: async (_id: string, name: string) => void signals.push(name) };
    const deps = { engine: telling, containers, sessions, assigned, requestStop, note, log: silentLogger() };
    const unattended = new Unattended({ patienceMs: 100 });
    const [near, far] = duplexPair();
    const statusOf = (jobId: string) => host.jobs.get(jobId)?.status;
    const joined = { engine, containers, sessions, hostId, statusOf, requestStop, log: silentLogger() };
    void attachClient(joined, { jobId: attended.id, stdin: true, logs: false }, far);
    const readers = (count: number) => () => sessions.get(attended.id)?.readers === count;
    await waitFor(readers(1), { what: 'the client', deadlineMs: 60_000, intervalMs: 5 });
    await endUnattended(deps, unattended, 0);
    await endUnattended(deps, unattended, 1_000);
    assert.deepEqual(notes, []);
    near.destroy();
    await waitFor(readers(0), { what: 'the client to be gone', deadlineMs: 60_000, intervalMs: 5 });
    await endUnattended(deps, unattended, 1_000);
    await endUnattended(deps, unattended, 1_099);
    assert.equal((await agent.statusOf(attended))?.state, 'running');
    await endUnattended(deps, unattended, 1_100);
    assert.deepEqual(signals, ['SIGHUP']);
    assert.match(notes.join(), /its client has been gone for an hour/);
    await endUnattended(deps, unattended, 1_101);
    await agent.reach(attended, 'over', ({ isFinal }) => isFinal);
    assert.equal((await agent.statusOf(detached))?.state, 'running');
    await agent.stop();
    sessions.close();
  }));
