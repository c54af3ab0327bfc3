/** Jobs and their templates: what becomes of a job whose template is late, broken or gone. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { cellKeys } from '@flynn/scheduler/cell';
import { evaluationsIn, hostId, jobOf, openHost, scenario } from '../host-fixture.ts';
import { newRecord } from './record.ts';

test('a job whose template was removed fails for good and says so, or is done when it is to stop', () =>
  scenario(async ({ engine, store }) => {
    const agent = await openHost({ engine, store });
    const wanted = jobOf('a');
    const unwanted = jobOf('b', {}, { desired: 'stop' });
    await agent.assign([wanted, unwanted], { hasTemplates: false });
    const failed = await agent.reach(wanted, 'failed', (s) => s.isFinal);
    assert.equal(failed.state, 'failed');
    assert.match(failed.error ?? '', /template was removed/);
    assert.equal((await agent.reach(unwanted, 'done', (s) => s.isFinal)).state, 'done');
    assert.deepEqual(
      new Set((await evaluationsIn(store)).map((evaluation) => evaluation.join())),
      new Set(['w1,job_ended,pending']),
    );
    assert.deepEqual(await engine.list(), []);
    // It is back, and a job that comes later is none the worse for it.
    const later = jobOf('c');
    await agent.assign([wanted, later]);
    await agent.reach(later, 'running', (s) => s.state === 'running');
    assert.equal((await agent.statusOf(wanted))?.state, 'failed');
    await agent.stop();
  }));

test('a template that cannot be read fails its jobs, and no others', () =>
  scenario(async ({ engine, store }) => {
    const agent = await openHost({ engine, store });
    const broken = jobOf('a', { meta: { broken: 'yes' } });
    const whole = jobOf('b');
    for (const [job, value] of [
      [broken, '{"image":{}}'],
      [whole, JSON.stringify(whole.template)],
    ] as const) {
      await store.transact({ then: [{ put: cellKeys.template(job.workloadId, job.version), value }] });
    }
    await agent.assign([broken, whole], { hasTemplates: false });
    await agent.reach(whole, 'running', (s) => s.state === 'running');
    const failed = await agent.reach(broken, 'failed', (s) => s.isFinal);
    assert.match(failed.error ?? '', /cannot be read/);
    await agent.stop();
  }));

test('what runs is left alone until its template is known, and stopped if there is none any more', () =>
  scenario(async ({ engine, store }) => {
    const job = jobOf('a', { meta: { app: 'x' } });
    const first = await openHost({ engine, store });
    await first.assign([job]);
    await first.reach(job, 'running', (s) => s.state === 'running');
    await first.stop();
    const [before] = await engine.list();

    const templates = Promise.withResolvers<void>();
    const asked = Promise.withResolvers<void>();
    const transact = store.transact.bind(store);
    store.transact = async (transaction, options) => {
      const isFetch = transaction.then.some((operation) => 'get' in operation);
      if (isFetch) asked.resolve();
      if (isFetch) await templates.promise;
      return transact(transaction, options);
    };
    const second = await openHost({ engine, store });
    await asked.promise;
    const other = jobOf('nobody');
    second.host.jobs.set(newRecord(other, hostId));
    // The loop has been round: it says of the other that nobody wants it.
    await second.reach(other, 'done', (s) => s.isFinal);
    assert.deepEqual(await engine.list(), [before]);
    await store.transact({ then: [{ deletePrefix: cellKeys.templatesOf(job.workloadId) }] });
    templates.resolve();
    const failed = await second.reach(job, 'failed', (s) => s.isFinal);
    assert.equal(failed.state, 'failed');
    assert.match(failed.error ?? '', /template was removed/);
    assert.deepEqual(failed.meta, { app: 'x' });
    assert.equal((await engine.list())[0]?.state, 'exited');
    await second.stop();
  }));

test('what runs is left alone while its template cannot be read, and ends when it is told to', () =>
  scenario(async ({ engine, store }) => {
    const job = jobOf('a');
    const first = await openHost({ engine, store });
    await first.assign([job]);
    await first.reach(job, 'running', (s) => s.state === 'running');
    await first.stop();
    const [before] = await engine.list();

    const later = {
      put: cellKeys.template(job.workloadId, job.version),
      value: '{"image":{"digest":"of a version to come"}}',
    };
    await store.transact({ then: [later] });
    const second = await openHost({ engine, store });
    const other = jobOf('other', {}, { workloadId: 'w2' });
    await store.transact({
      then: [{ put: cellKeys.template('w2', other.version), value: JSON.stringify(other.template) }],
    });
    await second.assign([job, other], { hasTemplates: false });
    await second.reach(other, 'running', (s) => s.state === 'running');
    assert.deepEqual(
      (await engine.list()).filter(({ id }) => id === before?.id),
      [before],
    );
    assert.equal((await second.statusOf(job))?.state, 'running');
    assert.equal(second.host.unresolved(), 'unreadable');
    await second.assign([{ ...job, desired: 'stop' }, other], { hasTemplates: false });
    assert.equal((await second.reach(job, 'done', (s) => s.isFinal)).state, 'done');
    await second.stop();
  }));

test('what an assignment names that cannot be read is left alone until it can be or is gone, and all else goes on', () =>
  scenario(async ({ engine, store }) => {
    const [job, other] = [jobOf('a'), jobOf('b', {}, { workloadId: 'w2' })];
    const first = await openHost({ engine, store });
    await first.assign([job]);
    await first.reach(job, 'running', (s) => s.state === 'running');
    const [before] = await engine.list();
    const odd = cellKeys.assignment(hostId, 'p2');
    const later = { planId: 'p2', groups: [{ workloadId: job.workloadId, jobs: 'as of a version to come' }] };
    await store.transact({
      then: [{ delete: cellKeys.assignment(hostId, 'p1') }, { put: odd, value: JSON.stringify(later) }],
    });
    await first.assign([other]);
    await first.reach(other, 'running', (s) => s.state === 'running');
    await first.stop();
    // Nor does an agent that begins take it for unwanted, or for lost.
    const second = await openHost({ engine, store });
    // What it does not name is unwanted as ever.
    const stranger = jobOf('c', {}, { workloadId: 'w3' });
    second.host.jobs.set(newRecord(stranger, hostId));
    await second.reach(stranger, 'done', (s) => s.isFinal);
    await second.assign([{ ...other, desired: 'stop' }]);
    await second.reach(other, 'done', (s) => s.isFinal);
    assert.equal(second.host.unresolved(), 'unreadable');
    assert.deepEqual(
      (await engine.list()).filter(({ id }) => id === before?.id),
      [before],
    );
    assert.equal((await second.statusOf(job))?.state, 'running');
    await store.transact({ then: [{ delete: odd }] });
    await second.assign([]);
    assert.equal((await second.reach(job, 'done', (s) => s.isFinal)).state, 'done');
    await second.stop();
  }));

test('while an assignment names nobody, all that no other names is left alone', () =>
  scenario(async ({ engine, store }) => {
    const [job, other] = [jobOf('a'), jobOf('b')];
    await store.transact({
      then: [{ put: cellKeys.assignment(hostId, 'p2'), value: '{"jobs":"of a version to come"}' }],
    });
    const agent = await openHost({ engine, store });
    agent.host.jobs.set(newRecord(other, hostId));
    await agent.assign([job]);
    await agent.reach(job, 'running', (s) => s.state === 'running');
    assert.equal((await agent.statusOf(other))?.isFinal, false);
    await store.transact({ then: [{ delete: cellKeys.assignment(hostId, 'p2') }] });
    // At once, not when all is looked at again, which is after 30 s.
    await agent.reach(other, 'done', (s) => s.isFinal, 20_000);
    await agent.stop();
  }));

test('of what runs and can be read neither by its template nor by its status is said that it runs, and it can be stopped', () =>
  scenario(async ({ engine, store }) => {
    const job = jobOf('a');
    const first = await openHost({ engine, store });
    await first.assign([job]);
    const running = await first.reach(job, 'running', (s) => s.state === 'running');
    await first.stop();
    await store.transact({
      then: [
        { put: cellKeys.template(job.workloadId, job.version), value: '{"image":{"digest":"of a version to come"}}' },
        { put: cellKeys.jobStatus(hostId, job.id), value: JSON.stringify({ ...running, state: 'hibernating' }) },
      ],
    });
    const second = await openHost({ engine, store });
    await waitFor(async () => second.host.jobs.get(job.id) !== undefined, { what: 'a record', deadlineMs: 10_000 });
    const { state, startedAt, address } = await second.reach(job, 'running', (s) => s.state === 'running');
    assert.deepEqual([state, startedAt, address], [running.state, running.startedAt, running.address]);
    second.host.requestStop(job.id);
    await second.reach(job, 'failed', (s) => s.isFinal);
    assert.equal((await engine.list())[0]?.state, 'exited');
    await second.stop();
  }));

test('of an assignment is read what its host needs: what a later version says of its demand keeps nothing from running', () =>
  scenario(async ({ engine, store }) => {
    const agent = await openHost({ engine, store });
    const job = jobOf('a');
    await agent.assign([job]);
    const key = cellKeys.assignment(hostId, 'p1');
    const value = (await store.get(key))?.value ?? '';
    const later = value.replaceAll('"demand":{', '"demand":{"hostPorts":{"tcp":[]},').replace('"hostPorts":[],', '');
    assert.notEqual(later, value);
    await store.transact({ then: [{ put: key, value: later }] });
    await agent.reach(job, 'running', (s) => s.state === 'running');
    assert.equal(agent.host.unresolved(), undefined);
    await agent.stop();
  }));
