import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { createServer } from 'node:tls';
import { certificates } from '@flynn/controller/certificates/api';
import { startTestController } from '@flynn/controller/testing';
import { type Credentials, createAuthority, issueCertificate } from '@flynn/kit/tls';
import { pinnedCluster, untilPinned } from './pinned-cluster.ts';
import { Platform } from './platform.ts';
import { type Cluster, readOptions, settle } from './settings.ts';

const domain = 'controller.flynn.localhost';

function issue(authority: Credentials): Promise<Credentials> {
  return issueCertificate(authority, { name: domain, addresses: [domain], isServerOnly: true });
}

test('the controller has a certificate of the cluster’s authority, unless people have brought one', async () => {
  const [authority, restored, theirs] = await Promise.all(
    ['flynn', 'flynn', 'Example CA'].map((name) => createAuthority(name)),
  );
  assert.ok(authority !== undefined && restored !== undefined && theirs !== undefined);
  await using world = await startTestController({ hosts: 0, hasWorker: false });
  const platform = new Platform(world.client);
  const put = (own: Credentials, by: Credentials) => platform.ensureCertificate(domain, own, by.certificate);
  const there = async () =>
    (await world.client.call(certificates.list, {})).map(({ updatedAt, notAfter }) => `${updatedAt} ${notAfter}`);

  const first = await issue(authority);
  assert.equal(await put(first, authority), true);
  const before = await there();
  assert.equal(await put(first, authority), true);
  assert.deepEqual(await there(), before);

  // As after a restore: the certificate is that of the authority the cluster had before.
  const later = await issueCertificate(restored, { name: domain, addresses: [domain], days: 100 });
  assert.equal(await put(later, restored), true);
  assert.equal((await there()).length, 1);
  assert.notDeepEqual(await there(), before);

  const { certificate, privateKey } = await issue(theirs);
  await world.client.call(certificates.add, { body: { domains: [domain], certificate, privateKey } });
  assert.equal(await put(first, authority), false);
});

test('a router that shows another authority is not pinned', async () => {
  const [authority, stranger] = await Promise.all([createAuthority('flynn'), createAuthority('flynn')]);
  const own = await issue(authority);
  const asked: string[] = [];
  const server = createServer({
    cert: own.certificate + authority.certificate,
    key: own.privateKey,
    SNICallback: (name, done) => {
      asked.push(name);
      done(null);
    },
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  assert.ok(address !== null && typeof address === 'object');
  const clusterOf = (by: Credentials): Cluster => ({
    ...settle(readOptions({}), undefined, {
      hostname: 'h1',
      address: '192.0.2.7',
      now: new Date(0),
      newSecret: () => 'secret',
      authority: by,
    }),
    httpsPort: address.port,
  });
  assert.equal(await untilPinned(clusterOf(authority), 60_000), true);
  assert.equal(asked[0], domain);
  assert.equal(await untilPinned(clusterOf(stranger), 200), false);
  const { controllerUrl, ca } = pinnedCluster(clusterOf(authority));
  assert.deepEqual([controllerUrl, ca], [`https://${domain}:${address.port}`, authority.certificate]);
  server.close();
  await once(server, 'close');
});
