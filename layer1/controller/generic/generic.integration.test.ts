/** The generic API of two controllers on one real etcd. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { waitFor, withDeadline } from '@flynn/kit/retry';
import { connectEtcd } from '@flynn/store/etcd';
import { startEtcdMember } from '@flynn/store/etcd-member';
import type { EtcdMember } from '@flynn/store/etcd-member';
import { apps } from '../api.ts';
import { generic, objectSchema } from './api.ts';
import { counterKind } from './demo.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';

const image = process.env['FLYNN_TEST_ETCD_IMAGE'];
const counters = { group: 'demo', version: 'v1', kind: 'Counter' };
const waiting = { deadlineMs: 30_000, intervalMs: 20 };
let etcd: EtcdMember;
let here: TestController;
let there: TestController;

before(async () => {
  etcd = await startEtcdMember(image === undefined ? {} : { image });
  const connect = () => connectEtcd({ endpoints: [etcd.endpoint], log: silentLogger() });
  here = await startTestController({ kinds: [counterKind], store: connect() });
  // The hosts and schedulers are the first one's.
  there = await startTestController({ kinds: [counterKind], store: connect(), hosts: 0 });
});
after(async () => {
  await there?.[Symbol.asyncDispose]();
  await here?.[Symbol.asyncDispose]();
  await etcd?.stop();
});

test('what one controller has written another shows at once, its watches tell it, and one worker of the two acts on it', async () => {
  const stop = new AbortController();
  const events = there.client.events(
    generic.watch,
    { params: counters, query: {} },
    { signal: withDeadline(60_000, stop.signal) },
  );
  assert.equal((await events.next()).value?.event, 'current');
  for (let target = 1; target <= 10; target += 1) {
    await here.client.call(generic.apply, { params: counters, body: { name: 'peas', spec: { target } } });
    const read = await there.client.call(generic.get, { params: { ...counters, name: 'peas' } });
    assert.equal(read.spec['target'], target);
  }
  let revision = 0;
  for await (const event of events) {
    const { metadata, outlook, status } = objectSchema.parse(event.data);
    assert.ok(metadata.revision > revision, 'in order');
    revision = metadata.revision;
    if (outlook === 'ready' && status['count'] === 10) break;
  }
  stop.abort();
});

test('an app as one object is made and taken apart through either, with all that it owns', async () => {
  const params = { group: 'flynn', version: 'v1', kind: 'App' };
  const body = {
    name: 'shop',
    spec: { image: 'test/shop', env: { A: '1' }, processes: { web: { count: 2 } }, routes: [{ port: 3400 }] },
  };
  assert.equal((await here.client.call(generic.apply, { params, body })).outcome, 'created');
  await here.jobsOf('shop', 2);
  const again = () => there.client.call(generic.apply, { params, body });
  await waitFor(async () => (await again()).outcome === 'unchanged', { what: 'an end of changes', ...waiting });
  const owned = { name: 'owned', owner: 'app/shop', spec: { target: 3 } };
  await there.client.call(generic.apply, { params: counters, body: owned });
  const { id } = await there.client.call(apps.get, { params: { app: 'shop' } });
  const gone = await there.client.call(generic.remove, { params: { ...params, name: 'shop' } });
  assert.equal(gone.outcome, 'deleting');
  await waitFor(
    async () => {
      const { entries } = await here.store.list('/flynn/resource/');
      return entries.every(({ key, value }) => !key.includes(id) && !value.includes(id));
    },
    { what: 'no resource with the id of the app', ...waiting },
  );
  const read = here.client.call(generic.get, { params: { ...counters, name: 'owned' } });
  await assert.rejects(read, (error) => hasCode(error, 'not_found'));
});
