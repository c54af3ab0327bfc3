/** Notifications of two controllers on one real etcd, to a receiver that is really there, and away in between. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { connectEtcd } from '@flynn/store/etcd';
import { startEtcdMember } from '@flynn/store/etcd-member';
import type { EtcdMember } from '@flynn/store/etcd-member';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';
import { notifications } from './api.ts';
import { isSigned, startReceiver } from './receiver-fixture.ts';

const image = process.env['FLYNN_TEST_ETCD_IMAGE'];
const waiting = { deadlineMs: 60_000, intervalMs: 20 };
let etcd: EtcdMember;
let here: TestController;
let there: TestController;

before(async () => {
  etcd = await startEtcdMember(image === undefined ? {} : { image });
  const connect = () => connectEtcd({ endpoints: [etcd.endpoint], log: silentLogger() });
  here = await startTestController({ store: connect(), hosts: 1 });
  there = await startTestController({ store: connect(), hosts: 0 });
});
after(async () => {
  await there?.[Symbol.asyncDispose]();
  await here?.[Symbol.asyncDispose]();
  await etcd?.stop();
});

test('what was begun by one worker is sent by another, each deployment with one id, until the receiver has it', async () => {
  await using receiver = await startReceiver();
  const { client } = here;
  await here.deployApp('shop', { web: {} });
  const body = { name: 'team', app: 'shop', url: receiver.url, on: ['deployment' as const], isInside: true };
  const { secret } = await client.call(notifications.create, { body });
  const types = ['deployment.succeeded', 'deployment.failed'] as const;
  for (const [at, type] of types.entries()) {
    receiver.answerWith((response) => response.writeHead(503, { 'retry-after': '1' }).end());
    here.setBehaviour(() => (type === 'deployment.failed' ? { is: 'crash', code: 1 } : { is: 'run' }));
    const release = await here.makeRelease('shop', { web: { command: [type] } });
    const before = receiver.got.length;
    await here.deploy('shop', release.id);
    await waitFor(() => receiver.got.length > before, { what: 'a first try', ...waiting });
    // Whichever of them had the seat.
    for (const world of [here, there]) await world.restartWorker();
    receiver.answerWith((response) => response.writeHead(204).end());
    const log = await waitFor(
      async () => {
        const found = await there.client.call(notifications.deliveries, { params: { notification: 'team' } });
        return found.length === at + 1 && found[0]?.outcome === 'delivered' && found;
      },
      { what: `word of ${type}`, ...waiting },
    );
    assert.equal(log[0]?.type, type);
    const told = receiver.got.filter(({ headers }) => headers['webhook-id'] === log[0]?.id);
    assert.ok(told.length >= 2 && told.every((one) => isSigned(one, secret, Date.now())));
  }
  assert.equal(new Set(receiver.got.map(({ headers }) => headers['webhook-id'])).size, types.length);
});
