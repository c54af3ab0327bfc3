import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { createServer, getCACertificates, setDefaultCACertificates } from 'node:tls';
import { certificates } from '@flynn/controller/certificates/api';
import { startTestController } from '@flynn/controller/testing';
import { trustedOnly } from '@flynn/host-agent/trust/authorities';
import { type Credentials, createAuthority, issueCertificate } from '@flynn/kit/tls';
import { knownCluster } from './pinned-cluster.ts';
import { Platform } from '../platform/platform.ts';
import { type Cluster, readOptions, settle } from '../settings.ts';

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

test('a router that shows another authority is not pinned, and spoken to over TLS only if this machine trusts it', async (context) => {
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
  context.after(() => server.close());
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
  const known = async (by: Credentials, deadlineMs: number, alsoTrusted?: Cluster['alsoTrusted']) => {
    const cluster = { ...clusterOf(by), ...(alsoTrusted === undefined ? {} : { alsoTrusted }) };
    const { controllerUrl, ca } = await knownCluster(cluster, deadlineMs);
    return [controllerUrl, ca];
  };
  const secureUrl = `https://${domain}:${address.port}`;
  assert.deepEqual(await known(authority, 60_000), [secureUrl, authority.certificate]);
  assert.equal(asked[0], domain);
  // One of them has no router, or is away: no reason to speak in clear.
  const byPeers = await knownCluster(clusterOf(authority), 60_000, ['127.0.0.9', '127.0.0.1']);
  assert.equal(byPeers.controllerUrl, secureUrl);
  assert.equal((await knownCluster(clusterOf(authority), 200, ['127.0.0.9'])).controllerUrl, `http://${domain}`);
  assert.deepEqual(await known(stranger, 200), [`http://${domain}`, undefined]);
  // While it is made anew it is pinned to both, whichever the router shows by then.
  const anew = await known(stranger, 60_000, await trustedOnly(authority));
  assert.deepEqual(anew, [secureUrl, stranger.certificate + authority.certificate]);
  // One that this machine trusts anyway needs no pin.
  const before = getCACertificates('default');
  try {
    setDefaultCACertificates([...before, authority.certificate]);
    assert.deepEqual(await known(stranger, 60_000), [secureUrl, undefined]);
  } finally {
    setDefaultCACertificates(before);
  }
});
