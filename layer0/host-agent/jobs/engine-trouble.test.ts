import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { FlynnError } from '@flynn/kit/errors';
import { createLogger } from '@flynn/kit/log';
import { raceAbort, waitFor } from '@flynn/kit/retry';
import { cellKeys } from '@flynn/scheduler/cell';
import type { Engine } from '../engine/engine.ts';
import { evaluationsIn, hostId, jobOf, openHost, scenario } from '../host-fixture.ts';

const script = (text: string) => ['sh', '-c', text];

test('how a job ended is not guessed at while the engine cannot tell of its container', () =>
  scenario(async ({ engine, store }) => {
    const job = jobOf('a', { restart: 'never', command: script('exit 0') });
    const before = await openHost({ engine, store });
    await before.assign([job]);
    await before.reach(job, 'done', (s) => s.isFinal);
    await before.stop();
    await store.transact({ then: [{ delete: cellKeys.jobStatus(hostId, job.id) }] });
    let isUnclear = true;
    let lists = 0;
    const list: Engine['list'] = async (call) => {
      lists += 1;
      const all = await engine.list(call);
      return isUnclear ? all.map((one) => ({ ...one, exitCode: 1, isUnclear, error: 'it hangs' })) : all;
    };
    const agent = await openHost({ engine: { ...engine, list }, store });
    await waitFor(() => lists > 0 && agent.containers.isCurrent, { what: 'the containers', deadlineMs: 30_000 });
    // That the other runs shows that both were seen to be wanted.
    const other = jobOf('b');
    await agent.assign([job, other]);
    await agent.reach(other, 'running', (s) => s.state === 'running');
    assert.equal(agent.host.jobs.get(job.id), undefined);
    assert.equal(await agent.statusOf(job), undefined);
    isUnclear = false;
    await agent.containers.refresh();
    assert.equal((await agent.reach(job, 'over', (s) => s.isFinal)).state, 'done');
    await agent.stop();
  }));

test('a crash counts once, however often the engine is in the way of the next start', () =>
  scenario(async ({ engine, store }) => {
    const states: string[] = [];
    let restarts: number | undefined;
    let starts = 0;
    const start: Engine['start'] = async (id, call) => {
      starts += 1;
      if (starts === 2 || starts === 3) throw new FlynnError('timeout', 'the engine took too long');
      return engine.start(id, call);
    };
    const agent = await openHost({ engine: { ...engine, start }, store });
    const job = jobOf('a', { command: script('sleep 0.1; exit 7') });
    agent.host.jobs.onChange(() => {
      const status = agent.host.jobs.get(job.id)?.status;
      const state = status?.state ?? '';
      if (state !== states.at(-1)) states.push(state);
      if (states.length === 10) restarts ??= status?.restarts;
    });
    await agent.assign([job]);
    await waitFor(() => states.length >= 10, { what: 'another run', deadlineMs: 30_000 });
    const waits = ['starting', 'pending', 'starting', 'pending'];
    const expected = ['pending', 'starting', 'running', 'crashed', ...waits, 'starting', 'running'];
    // By now it may have crashed again.
    assert.deepEqual(states.slice(0, 10), expected);
    assert.equal(restarts, 1);
    await agent.stop();
  }));

test('a container that the engine is to remove, and never starts again, makes room for another one', () =>
  scenario(async ({ engine, store }) => {
    const starts: string[] = [];
    const start: Engine['start'] = async (id, call) => {
      starts.push(id);
      const isAgain = starts.indexOf(id) < starts.length - 1;
      if (isAgain) throw new FlynnError('conflict', 'the container is marked for removal and cannot be started');
      return engine.start(id, call);
    };
    const agent = await openHost({ engine: { ...engine, start }, store });
    const job = jobOf('a', { command: script('sleep 0.1; exit 7') });
    await agent.assign([job]);
    await waitFor(() => new Set(starts).size > 1, { what: 'another container', deadlineMs: 60_000 });
    await agent.stop();
  }));

test('a job that an engine which hangs does not start is over here, so that another host has it', () =>
  scenario(async ({ engine, store }) => {
    const start: Engine['start'] = () => Promise.reject(new FlynnError('timeout', 'it took too long'));
    let isHung = false;
    const agent = await openHost({ engine: { ...engine, start }, store, isEngineHung: () => isHung });
    const job = jobOf('a');
    await agent.assign([job]);
    await agent.reach(job, 'pending', ({ state }) => state === 'pending');
    isHung = true;
    const { state, error } = await agent.reach(job, 'over', ({ isFinal }) => isFinal);
    assert.equal(state, 'done');
    assert.match(error ?? '', /hangs/);
    assert.deepEqual(await evaluationsIn(store), [['w1', 'job_ended', 'pending']]);
    await agent.stop();
  }));

test('a removal that the engine does not get done is told once, and not with each try', () =>
  scenario(async ({ engine, store }) => {
    let tries = 0;
    const remove: Engine['remove'] = async (id, call) => {
      tries += 1;
      if (tries <= 3) throw new FlynnError('unavailable', 'the volume is busy');
      return engine.remove(id, call);
    };
    const said = new PassThrough();
    const log = createLogger('host', { destination: said });
    const agent = await openHost({ engine: { ...engine, remove }, store, log });
    // Of ended jobs the newest 25 stay.
    const jobs = Array.from({ length: 26 }, (_, at) =>
      jobOf(`a${at}`, { command: script('exit 0'), restart: 'never' }),
    );
    await agent.assign(jobs);
    for (const job of jobs) await agent.reach(job, 'its end', ({ state }) => state === 'done');
    await agent.assign([]);
    await waitFor(() => tries > 3, { what: 'the removal', deadlineMs: 60_000, intervalMs: 20 });
    await agent.stop();
    const lines = String(said.read())
      .split('\n')
      .filter((line) => line.includes('the volume is busy'));
    assert.equal(lines.length, 1, lines.join('\n'));
  }));

test('while the engine is away nothing is called crashed, and afterwards everything converges', () =>
  scenario(async ({ engine, store }) => {
    const agent = await openHost({ engine, store });
    const job = jobOf('a');
    await agent.assign([job]);
    await agent.reach(job, 'running', (s) => s.state === 'running');
    engine.setAvailable(false);
    await waitFor(() => !agent.containers.isCurrent, { what: 'the loss to be noticed', deadlineMs: 30_000 });
    const another = jobOf('b');
    await agent.assign([job, another]);
    assert.equal((await agent.statusOf(job))?.state, 'running');
    engine.setAvailable(true);
    await agent.reach(another, 'running', (s) => s.state === 'running');
    assert.equal((await agent.statusOf(job))?.restarts, 0);
    await agent.stop();
  }));

test('a job told to stop while its container starts is not over before the container is', () =>
  scenario(async ({ engine, store }) => {
    let started: Promise<unknown> = Promise.resolve();
    // Like a real engine: who hangs up ends the waiting, not the start, and who looks waits for it.
    const slow: Engine = {
      ...engine,
      async start(id, options = {}) {
        const starting = delay(100).then(() => engine.start(id));
        started = starting;
        return raceAbort(starting, options.signal ?? new AbortController().signal);
      },
      async list(options) {
        await started;
        return engine.list(options);
      },
    };
    const agent = await openHost({ engine: slow, store });
    const job = jobOf('a');
    await agent.assign([job]);
    await waitFor(async () => (await engine.list()).length === 1, { what: 'the container', deadlineMs: 30_000 });
    await agent.assign([{ ...job, desired: 'stop' }]);
    await agent.reach(job, 'done', (s) => s.isFinal);
    await started;
    assert.deepEqual(
      (await engine.list()).map((container) => container.state),
      ['exited'],
    );
    await agent.stop();
  }));

test('nor where the engine does not tell of its containers for a while', () =>
  scenario(async ({ engine, store }) => {
    let silent = 0;
    let starting: Promise<unknown> = Promise.resolve();
    const mayStart = Promise.withResolvers<void>();
    const slow: Engine = {
      ...engine,
      async start(id, options = {}) {
        silent = 2;
        const begun = mayStart.promise.then(() => engine.start(id));
        starting = begun;
        return raceAbort(begun, options.signal ?? new AbortController().signal);
      },
      async list(options) {
        silent -= 1;
        if (silent >= 0) throw new FlynnError('timeout', 'the container engine took too long to answer');
        mayStart.resolve();
        await starting;
        return engine.list(options);
      },
    };
    const agent = await openHost({ engine: slow, store });
    const job = jobOf('a');
    await agent.assign([job]);
    await waitFor(() => silent === 2, { what: 'the start', deadlineMs: 30_000 });
    await agent.assign([{ ...job, desired: 'stop' }]);
    await agent.reach(job, 'done', (s) => s.isFinal);
    mayStart.resolve();
    await starting;
    assert.deepEqual(
      (await engine.list()).map((container) => container.state),
      ['exited'],
    );
    await agent.stop();
  }));
