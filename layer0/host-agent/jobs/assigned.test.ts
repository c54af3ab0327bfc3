/** Jobs and their templates: what becomes of a job whose template is late, broken or gone. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
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
