import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { raceAbort, waitFor } from '@flynn/kit/retry';
import { cellKeys } from '@flynn/scheduler/cell';
import type { Container, Engine } from '../engine/engine.ts';
import { AnnouncerProbe, evaluationsIn, hostId, jobOf, openHost, scenario } from '../host-fixture.ts';
import { containerSpecOf } from '../containers/spec.ts';
import { Standing } from '../fencing/standing.ts';

const script = (text: string) => ['sh', '-c', text];

test('an assigned job runs, and ends for good with an evaluation when it is to stop', () =>
  scenario(async ({ engine, store }) => {
    const agent = await openHost({ engine, store });
    const job = jobOf('a');
    await agent.assign([job]);
    const running = await agent.reach(job, 'running', (s) => s.state === 'running');
    assert.equal(running.address, '127.0.0.1');
    assert.equal(running.hostId, hostId);
    await agent.assign([{ ...job, desired: 'stop' }]);
    const ended = await agent.reach(job, 'done', (s) => s.state === 'done');
    assert.equal(ended.isFinal, true);
    assert.equal(ended.exitCode, 143);
    assert.deepEqual(await evaluationsIn(store), [['w1', 'job_ended', 'pending']]);
    await agent.stop();
  }));

test("nothing is done or said of jobs before the record is this agent's, and while it is another machine's", () =>
  scenario(async ({ engine, store }) => {
    const standing = new Standing();
    const agent = await openHost({ engine, store, standing });
    const [first, second] = [jobOf('a'), jobOf('b')];
    await agent.assign([first]);
    await delay(300);
    assert.deepEqual(await engine.list(), []);
    standing.stand({ lost: new AbortController().signal });
    await agent.reach(first, 'running', (s) => s.state === 'running');
    standing.fall();
    // What the copy has of it would be declared over, and given to another host, while it runs on this one.
    await agent.assign([{ ...first, desired: 'stop' }, second]);
    agent.host.jobs.update(first.id, (record) => ({
      ...record,
      status: { ...record.status, state: 'done', isFinal: true },
    }));
    await delay(300);
    assert.equal((await agent.statusOf(first))?.state, 'running');
    assert.equal(await agent.statusOf(second), undefined);
    assert.deepEqual(
      (await engine.list()).map(({ state }) => state),
      ['running'],
    );
    standing.stand({ lost: new AbortController().signal });
    await agent.reach(second, 'running', (s) => s.state === 'running');
    await agent.reach(first, 'done', (s) => s.isFinal);
    await agent.stop();
  }));

test('what is concluded while the lease of the host is lost is said once the record stands on another', () =>
  scenario(async ({ engine, store }) => {
    const standing = new Standing();
    const lost = new AbortController();
    standing.stand({ lost: lost.signal });
    const agent = await openHost({ engine, store, standing });
    const job = jobOf('a');
    lost.abort();
    await agent.assign([job]);
    await waitFor(async () => (await engine.list())[0]?.state === 'running', { what: 'the job', deadlineMs: 30_000 });
    await delay(200);
    assert.equal(await agent.statusOf(job), undefined);
    standing.stand({ lost: new AbortController().signal });
    await agent.reach(job, 'running', (s) => s.state === 'running');
    await agent.stop();
  }));

test('a container nobody assigned is stopped', () =>
  scenario(async ({ engine, store }) => {
    const agent = await openHost({ engine, store });
    const job = jobOf('a');
    await agent.assign([job]);
    await agent.reach(job, 'running', (s) => s.state === 'running');
    await agent.assign([]);
    await agent.reach(job, 'done', (s) => s.state === 'done' && s.isFinal);
    assert.equal((await engine.list())[0]?.state, 'exited');
    await agent.stop();
  }));

test('a job that crashes is started again at once, then waits', () =>
  scenario(async ({ engine, store }) => {
    const agent = await openHost({ engine, store });
    const job = jobOf('a', { command: script('exit 7') });
    await agent.assign([job]);
    const crashed = await agent.reach(job, 'waiting', (s) => s.state === 'crashed' && s.restarts >= 1);
    assert.equal(crashed.exitCode, 7);
    assert.equal(crashed.isFinal, false);
    assert.equal((crashed.nextStartAt ?? 0) - (crashed.endedAt ?? 0) >= 900, true);
    assert.deepEqual(await evaluationsIn(store), []);
    const again = await agent.reach(job, 'started a third time', (s) => s.restarts >= 2);
    assert.deepEqual([again.lastError, again.lastExitCode], ['ended with exit code 7', 7]);
    await agent.stop();
  }));

test('a job that was killed for its memory has that in its log, with its limit', () =>
  scenario(async ({ engine, store }) => {
    const notes: string[] = [];
    const note = ({ labels }: Container, message: string) => void notes.push(`${labels['flynn.job']} ${message}`);
    const agent = await openHost({ engine, store, note });
    const limits = { memoryBytes: 96 * 2 ** 20, cpuMillis: 100 };
    const job = jobOf('a', { limits, restart: 'never', command: script('oom') });
    await agent.assign([job]);
    const { error } = await agent.reach(job, 'over', (s) => s.isFinal);
    const message = 'killed: out of memory (limit 96 MiB)';
    assert.equal(error, message);
    await waitFor(() => notes.length > 0, { what: 'the line', deadlineMs: 30_000, intervalMs: 5 });
    assert.deepEqual(notes, [`${job.id} ${message}`]);
    await agent.stop();
  }));

test('a job is started in a new container where its own tells of where the host, or etcd, was before', () =>
  scenario(async ({ engine, store }) => {
    const job = jobOf('a', { access: ['store'] });
    const runAt = async (settings: { externalAddress: string; storeEndpoints: () => readonly string[] }) => {
      const agent = await openHost({ engine, store, settings });
      await agent.assign([job]);
      await waitFor(() => agent.containers.ofJob(job.id)?.state === 'running', {
        what: 'it to run',
        deadlineMs: 60_000,
      });
      const id = agent.containers.ofJob(job.id)?.id;
      await agent.stop();
      return id;
    };
    const at = (externalAddress: string, ...storeEndpoints: string[]) =>
      runAt({ externalAddress, storeEndpoints: () => storeEndpoints });
    const first = await at('10.0.0.1', 'e1', 'e2');
    engine.losePower();
    assert.equal(await at('10.0.0.1', 'e2', 'e3'), first, 'etcd is still at one of them');
    assert.equal(await at('10.0.0.9', 'e9'), first, 'what runs runs on');
    engine.losePower();
    const moved = await at('10.0.0.9', 'e2');
    assert.notEqual(moved, first);
    engine.losePower();
    const other = await at('10.0.0.9', 'e9');
    assert.notEqual(other, moved);
    engine.losePower();
    assert.equal(await at('10.0.0.9', 'e9'), other);
    assert.equal((await engine.list()).length, 1);
  }));

test('a container that has more in our name than its job says has another in its place when it is started', () =>
  scenario(async ({ engine, store }) => {
    const job = jobOf('a');
    const settings = {
      cluster: 'test',
      networkName: 'flynn-test',
      hostId: 'h1',
      externalAddress: '127.0.0.1',
      gateway: '127.0.0.1',
    };
    const { labels, ...spec } = containerSpecOf(job, 'base', settings);
    await engine.ensureNetwork({ name: 'flynn-test', bridge: 'b', subnet: '10.0.0.0/24', gateway: '10.0.0.1' });
    const before = await engine.create({ ...spec, labels: { ...labels, 'flynn.temp-disk': '1000000000000000' } });
    const agent = await openHost({ engine, store, settings });
    await agent.assign([job]);
    await agent.reach(job, 'running', (s) => s.state === 'running');
    const [now, ...others] = await engine.list();
    assert.notEqual(now?.id, before);
    assert.equal(now?.labels['flynn.temp-disk'], undefined);
    assert.deepEqual(others, []);
    await agent.stop();
  }));

test('an image that takes for ever keeps no other job from being started, and is given up with the last job that wants it', () =>
  scenario(async ({ engine, store }) => {
    const waiting = new Set<AbortSignal>();
    const ensureImage: Engine['ensureImage'] = async (image, call) => {
      if (!('name' in image) || image.name !== 'slow') return engine.ensureImage(image, call);
      const { signal } = call ?? {};
      assert.ok(signal);
      waiting.add(signal);
      return raceAbort(new Promise<string>(() => undefined), signal);
    };
    const agent = await openHost({ engine: { ...engine, ensureImage }, store });
    const crashing = jobOf('crashing', { command: script('sleep 0.2; exit 7') });
    await agent.assign([crashing]);
    await agent.reach(crashing, 'running', (s) => s.state === 'running');
    const slow = Array.from({ length: 20 }, (_, at) => jobOf(`slow${at}`, { image: { name: 'slow' } }));
    await agent.assign([crashing, ...slow]);
    await waitFor(() => waiting.size === 20, { what: 'all to wait for the image', deadlineMs: 30_000 });
    const { restarts } = await agent.reach(crashing, 'there', () => true);
    await agent.reach(crashing, 'started again', (s) => s.restarts > restarts);
    const other = jobOf('other');
    await agent.assign([crashing, other, ...slow]);
    await agent.reach(other, 'running', (s) => s.state === 'running');
    assert.ok([...waiting].every(({ aborted }) => !aborted));
    await agent.assign([crashing, other]);
    await waitFor(() => [...waiting].every(({ aborted }) => aborted), { what: 'nobody to wait', deadlineMs: 30_000 });
    await agent.stop();
  }));

test('containers of ended jobs are removed a few at a time', () =>
  scenario(async ({ engine, store }) => {
    let most = 0;
    const waiting = new Set<() => void>();
    const remove: Engine['remove'] = async (id, call) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      waiting.add(resolve);
      most = Math.max(most, waiting.size);
      await promise;
      waiting.delete(resolve);
      return engine.remove(id, call);
    };
    const agent = await openHost({ engine: { ...engine, remove }, store });
    // Of ended jobs the newest 25 stay.
    const jobs = Array.from({ length: 35 }, (_, at) =>
      jobOf(`a${at}`, { command: script('exit 0'), restart: 'never' }),
    );
    await agent.assign(jobs);
    for (const job of jobs) await agent.reach(job, 'its end', ({ state }) => state === 'done');
    await agent.assign([]);
    const left = async (): Promise<boolean> => {
      for (const go of waiting) go();
      return (await engine.list()).length === 25;
    };
    await waitFor(() => waiting.size >= 4, { what: 'removals', deadlineMs: 60_000, intervalMs: 5 });
    await waitFor(left, { what: 'the rest to go', deadlineMs: 60_000, intervalMs: 5 });
    assert.equal(most, 4);
    await agent.stop();
  }));

test('a job that is never restarted ends with its exit code', () =>
  scenario(async ({ engine, store }) => {
    const agent = await openHost({ engine, store });
    const good = jobOf('good', { restart: 'never', command: script('exit 0') });
    const bad = jobOf('bad', { restart: 'never', command: script('exit 3') });
    const long = jobOf('long', { restart: 'never', maxRuntimeMs: 100 });
    await agent.assign([good, bad, long]);
    const ended = await Promise.all([good, bad, long].map((job) => agent.reach(job, 'over', (s) => s.isFinal)));
    assert.deepEqual(
      ended.map((s) => s.state),
      ['done', 'crashed', 'failed'],
    );
    assert.equal(ended[1]?.exitCode, 3);
    assert.match(ended[2]?.error ?? '', /longer than its limit of 0.1 s/);
    await agent.stop();
  }));

test('an image that does not exist fails the job with the reason', () =>
  scenario(async ({ engine, store }) => {
    const agent = await openHost({ engine, store });
    const job = jobOf('a', { image: { name: 'absent' }, restart: 'never' });
    const service = jobOf('b', { image: { name: 'absent' } });
    await agent.assign([job, service]);
    const failed = await agent.reach(job, 'failed', (s) => s.state === 'failed');
    assert.equal(failed.isFinal, true);
    assert.match(failed.error ?? '', /could not pull absent/);
    const retried = await agent.reach(service, 'failed', (s) => s.state === 'failed');
    assert.equal(retried.isFinal, false);
    assert.ok((retried.nextStartAt ?? 0) > (retried.endedAt ?? Infinity));
    await agent.stop();
  }));

test('after a power cut the jobs are started again', () =>
  scenario(async ({ engine, store }) => {
    const first = await openHost({ engine, store });
    const job = jobOf('a');
    await first.assign([job]);
    await first.reach(job, 'running', (s) => s.state === 'running');
    await first.stop();
    engine.losePower();
    await waitFor(async () => (await engine.list())[0]?.state === 'exited', { what: 'the end', deadlineMs: 30_000 });
    const second = await openHost({ engine, store });
    await second.reach(job, 'running again', (s) => s.state === 'running' && s.restarts === 1);
    await second.stop();
  }));

test('told to stop, a service job is started again and a one-off job is done', () =>
  scenario(async ({ engine, store }) => {
    const agent = await openHost({ engine, store, announcer: new AnnouncerProbe() });
    const service = jobOf('a');
    const single = jobOf('b', { restart: 'never' });
    await agent.assign([service, single]);
    for (const job of [service, single]) await agent.reach(job, 'running', (s) => s.state === 'running');
    agent.host.requestStop(service.id);
    agent.host.requestStop(single.id);
    assert.equal((await agent.reach(single, 'over', (s) => s.isFinal)).state, 'done');
    const again = await agent.reach(service, 'running again', (s) => s.state === 'running' && s.restarts === 1);
    assert.equal(again.isFinal, false);
    assert.deepEqual([again.lastError, again.lastExitCode], [undefined, undefined], 'it was asked for');
    await agent.stop();
  }));

test('of ended jobs nobody assigns the newest 25 stay', () =>
  scenario(async ({ engine, store }) => {
    const agent = await openHost({ engine, store });
    const jobs = Array.from({ length: 30 }, (_, index) =>
      jobOf(`j${index}`, { restart: 'never', command: script('exit 0') }),
    );
    await agent.assign(jobs);
    for (const job of jobs) await agent.reach(job, 'over', (s) => s.isFinal);
    await agent.assign([]);
    await waitFor(async () => (await store.list(cellKeys.hostStatus(hostId))).entries.length === 25, {
      what: 'old statuses to go',
      deadlineMs: 30_000,
    });
    assert.equal((await engine.list()).length, 25);
    await agent.stop();
  }));
