import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { freePort } from '@flynn/kit/testing-ports';
import { listen, quick } from '../engine/door-fixture.ts';
import { hostId, jobOf, openHost, scenario } from '../host-fixture.ts';

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

test("names of apps and of the platform are agents' own from a job's assignment on; those of other workloads are not", () =>
  scenario(async ({ engine, store }) => {
    const check = { type: 'http' as const, path: '/', status: 200 };
    const ports = (name: string) => [{ port: 5432, service: { name }, roles: [{ name: `${name}-primary`, check }] }];
    const host = await openHost({ engine, store });
    // Their containers never come up: there is no such image.
    const image = { name: 'none' };
    const ofApp = jobOf('a', { image, ports: ports('shop'), meta: { 'flynn.app': 'a1' } });
    const ofPlatform = jobOf('b', { image, ports: ports('part'), identity: 'controller' }, { workloadId: 'w2' });
    const other = jobOf('c', { image, ports: ports('legacy') }, { workloadId: 'w3' });
    const vouched = (...names: string[]) =>
      waitFor(() => [...host.announcer.vouched].sort().join() === names.join(), {
        what: names.join(),
        deadlineMs: 30_000,
      });
    await host.assign([ofApp, ofPlatform, other]);
    await vouched('part', 'part-primary', 'shop', 'shop-primary');
    assert.deepEqual(host.announcer.calls, []);
    await host.assign([ofApp, other]);
    await vouched('shop', 'shop-primary');
    await host.stop();
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
    let door = await listen();
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
    let door = await listen();
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
    let door = await listen();
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
