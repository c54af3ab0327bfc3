import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '@flynn/kit/clock';
import { hasCode } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { freePorts } from '@flynn/kit/testing-ports';
import { connectEtcd } from '@flynn/store/etcd';
import { startEtcdMember } from '@flynn/store/etcd-member';
import { makeRoom } from './etcd-room.ts';
import { roomOf } from './start.ts';

const log = silentLogger();
const image = process.env['FLYNN_TEST_ETCD_IMAGE'];
const quotaBytes = 8 * 1024 ** 2;

test('a store that is full of history takes writes again, and nobody did anything', async (t) => {
  await using member = await startEtcdMember({ ...(image === undefined ? {} : { image }), quotaBytes });
  await using store = connectEtcd({ endpoints: [member.endpoint], log });
  const put = (value: string) => store.transact({ then: [{ put: '/large', value }] });
  await assert.rejects(
    async () => {
      for (let at = 0; at < 64; at += 1) await put('x'.repeat(1024 ** 2));
    },
    (error) => hasCode(error, 'exhausted'),
  );
  // One that is away has no part in it: without room nobody could even be told that its host is gone for good.
  const [port = 0] = await freePorts(1);
  store.endpoints = [`http://127.0.0.1:${port}`, member.endpoint];
  const room = roomOf({ store, tls: undefined, own: member.endpoint, quotaBytes: async () => quotaBytes });
  const make = () => makeRoom(room, { log, signal: t.signal, clock: systemClock });
  assert.equal(await make(), 'full');
  await put('small');
  assert.equal(await make(), undefined);
});
