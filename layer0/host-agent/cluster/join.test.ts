import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import type { ErrorCode } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { fingerprintOf } from '@flynn/kit/certificate';
import { freePort } from '@flynn/kit/testing-ports';
import { createAuthority, issueCertificate } from '@flynn/kit/tls';
import { cellKeys } from '@flynn/scheduler/cell';
import { openTestStore } from '@flynn/store/testing';
import { encryptionKey } from '../network/encryption.ts';
import { leaseKey } from '../network/lease.ts';
import { type Admission, startJoinServer } from './join-server.ts';
import { askToJoin, formatToken, parseToken, passUntil } from './join.ts';

const secret = 'a secret of some length';
const now = Date.now();
const isCode = (code: ErrorCode, pattern: RegExp) => (error: unknown) =>
  hasCode(error, code) && pattern.test(error.message);

async function startHost(sealingKeys: readonly string[] = [], current?: (admission: Admission) => Admission) {
  const store = openTestStore();
  const authority = await createAuthority('flynn test');
  const own = await issueCertificate(authority, { name: 'h1', addresses: ['127.0.0.1'] });
  const admission = {
    secret,
    range: '100.100.0.0/16',
    certificate: own.certificate + authority.certificate,
    privateKey: own.privateKey,
    release: '1.0.0',
    settings: { name: 'test' },
  };
  const server = await startJoinServer({
    admission,
    ...(current === undefined ? {} : { current: async () => current(admission) }),
    sealingKeys: async () => sealingKeys,
    address: '127.0.0.1',
    port: 0,
    store,
    endpoints: () => ['https://192.0.2.1:2379'],
    peers: () => ['192.0.2.1'],
    now: () => now,
    log: silentLogger(),
    signal: new AbortController().signal,
  });
  const fingerprint = fingerprintOf(authority.certificate);
  const token = { addresses: ['127.0.0.1'], fingerprint, secret: passUntil(secret, now + 1) };
  return {
    token,
    port: server.port,
    store,
    askAs: (release: string) =>
      askToJoin(
        token,
        { hostId: 'h9', address: '192.0.2.9', release },
        { signal: AbortSignal.timeout(60_000), port: server.port, now: Date.now },
      ),
    ask: (hostId: string, asked = token, address: string | undefined = '192.0.2.2', clock = Date.now()) =>
      askToJoin(
        asked,
        { hostId, ...(address === '' ? {} : { address }) },
        { signal: AbortSignal.timeout(60_000), port: server.port, now: () => clock },
      ),
    async [Symbol.asyncDispose]() {
      await server.close();
      await store.close();
    },
  };
}

test('a host with the token gets settings, a subnet and where etcd is; asked again, the same', async () => {
  await using host = await startHost();
  const answer = await host.ask('h2');
  assert.deepEqual(answer, {
    settings: { name: 'test' },
    lease: { hostId: 'h2', address: '192.0.2.2', subnet: '100.100.0.0/24', joinedAt: now },
    endpoints: ['https://192.0.2.1:2379'],
    peers: ['192.0.2.1'],
    now,
  });
  assert.deepEqual(await host.ask('h2'), answer);
});

test('a wrong secret, another cluster, a taken id and a host that is not there are told apart', async () => {
  await using host = await startHost();
  await assert.rejects(
    host.ask('h2', { ...host.token, secret: passUntil('another secret of some length', now + 1) }),
    isCode('denied', /not of this cluster.*flynn-host token/),
  );
  await assert.rejects(
    host.ask('h2', { ...host.token, secret: passUntil(secret, now) }),
    isCode('denied', /has expired.*flynn-host token/),
  );
  await assert.rejects(
    host.ask('h2', { ...host.token, fingerprint: '0'.repeat(64) }),
    isCode(
      'unavailable',
      /127\.0\.0\.1: a host answers, but it is not of the cluster.*has another authority by now.*flynn-host token/,
    ),
  );
  await host.ask('h2');
  await assert.rejects(host.ask('h2', host.token, '192.0.2.77'), isCode('conflict', /host h2 at 192\.0\.2\.2/));
  const away = askToJoin(
    host.token,
    { hostId: 'h3', address: '192.0.2.3' },
    { signal: AbortSignal.timeout(60_000), port: 1 },
  );
  await assert.rejects(away, isCode('unavailable', /could be asked[^]*is port 1 open/));
});

test('a machine without WireGuard is let in where nothing is encrypted, and where it is, refused before anything is leased to it', async () => {
  await using host = await startHost();
  const ask = (hostId: string, withoutWireguard?: string) =>
    askToJoin(
      host.token,
      { hostId, address: '192.0.2.9', withoutWireguard },
      { signal: AbortSignal.timeout(60_000), port: host.port },
    );
  const says = (value: string) => host.store.transact({ then: [{ put: encryptionKey, value }] });
  await ask('h8', 'wg is not installed');
  await host.store.transact({ then: [{ delete: leaseKey('h8') }] });
  // While it is being encrypted, too.
  for (const value of ['"ready"', '"sent"', '"on"']) {
    await says(value);
    await assert.rejects(
      ask('h9', 'wg is not installed'),
      isCode('conflict', /encrypts.*on this machine wg is not installed: apt-get install wireguard-tools.*join again/),
    );
  }
  await says('"of a later version"');
  await assert.rejects(ask('h9', 'wg is not installed'), isCode('conflict', /cannot be read.*flynn-host doctor/));
  assert.equal(await host.store.get(leaseKey('h9')), undefined);
  assert.equal((await ask('h9')).lease.hostId, 'h9');
});

test('a token survives copying, and what is none is told', () => {
  const token = { addresses: ['192.0.2.1', '192.0.2.2'], fingerprint: 'a'.repeat(64), secret };
  assert.deepEqual(parseToken(` ${formatToken(token)}\n`), token);
  for (const wrong of ['', 'x', formatToken(token).slice(0, 30)]) {
    assert.throws(() => parseToken(wrong), isCode('invalid', /no token to join with/));
  }
});

test('a host that is not told its address has the one from which it reaches the cluster', async () => {
  await using host = await startHost();
  assert.equal((await host.ask('h2', host.token, '')).lease.address, '127.0.0.1');
});

test('a host of the token that is away is passed over', async () => {
  await using host = await startHost();
  const token = { ...host.token, addresses: ['127.0.0.2', '127.0.0.1'] };
  assert.equal((await host.ask('h2', token)).lease.hostId, 'h2');
});

test('a clock that would make certificates the others refuse is told, whichever way it is off', async () => {
  await using host = await startHost();
  for (const hours of [-2, 2]) {
    const clock = now + hours * 3_600_000;
    await assert.rejects(
      host.ask('h2', host.token, '192.0.2.2', clock),
      isCode('conflict', /clocks differ.*timedatectl/),
    );
  }
});

test('a machine with another release is refused and leases nothing, one with the same is let in', async () => {
  await using host = await startHost();
  await assert.rejects(host.askAs('0.9.0'), isCode('conflict', /has flynn 0\.9\.0, the cluster 1\.0\.0/));
  assert.equal((await host.askAs('1.0.0')).lease.subnet, '100.100.0.0/24');
});

test('who joins is told the sealing key that is in use by then', async () => {
  await using host = await startHost(['in-use', 'that-is-to-be']);
  assert.deepEqual((await host.ask('h2')).settings, { name: 'test', sealingKey: 'in-use' });
  await using of = await startHost();
  assert.deepEqual((await of.ask('h2')).settings, { name: 'test' });
});

test('who joins is told what the host was told last, without a start in between', async () => {
  let name = 'before';
  await using host = await startHost([], (admission) => ({ ...admission, settings: { name } }));
  assert.deepEqual((await host.ask('h2')).settings, { name: 'before' });
  name = 'after';
  assert.deepEqual((await host.ask('h2')).settings, { name: 'after' });
});

test('a host that says it is behind NAT is let in at its gateway, whether or not anybody reaches its address', async () => {
  await using host = await startHost();
  const asking = { signal: AbortSignal.timeout(60_000), port: host.port };
  const { lease } = await askToJoin(host.token, { hostId: 'h4', address: '10.0.0.4', site: 'home' }, asking);
  assert.deepEqual([lease.address, lease.site, lease.localAddress], ['100.100.0.1', 'home', '10.0.0.4']);
});

test('a host behind NAT that broke off may come with another address; while it is up its name is taken', async () => {
  await using host = await startHost();
  const asking = { signal: AbortSignal.timeout(60_000), port: host.port };
  const ask = (address: string) => askToJoin(host.token, { hostId: 'h4', address, site: 'home' }, asking);
  const { lease } = await ask('10.0.0.4');
  assert.deepEqual((await ask('10.0.0.9')).lease, { ...lease, localAddress: '10.0.0.9' });
  await host.store.transact({ then: [{ put: cellKeys.host('h4'), value: '{}' }] });
  await assert.rejects(ask('10.0.0.5'), isCode('conflict', /there is a host h4 at 10\.0\.0\.9 behind the NAT of home/));
});

test('a machine behind NAT does not get the place of another of its name that is off', async () => {
  await using host = await startHost();
  const asking = { signal: AbortSignal.timeout(60_000), port: host.port };
  const ask = (address: string) => askToJoin(host.token, { hostId: 'raspberrypi', address, site: 'home' }, asking);
  const { lease } = await ask('192.168.1.10');
  const up = { ...lease, tunnelKey: `${'A'.repeat(43)}=` };
  await host.store.transact({ then: [{ put: leaseKey('raspberrypi'), value: JSON.stringify(up) }] });
  await assert.rejects(
    ask('192.168.1.11'),
    isCode('conflict', /there is a host raspberrypi at 192\.168\.1\.10 .*FLYNN_HOST_ID/),
  );
  // One that was left behind knows what it had, wherever it is by now.
  const left = { hostId: 'raspberrypi', address: '192.168.1.12', site: 'home', subnet: lease.subnet };
  assert.deepEqual((await askToJoin(host.token, left, asking)).lease, { ...up, localAddress: '192.168.1.12' });
  await host.store.transact({ then: [{ put: leaseKey('raspberrypi'), value: JSON.stringify(up) }] });
  // The machine itself, installed anew; not while it is there, which then is one of another network of that name.
  assert.deepEqual((await ask('192.168.1.10')).lease, up);
  await host.store.transact({ then: [{ put: cellKeys.host('raspberrypi'), value: '{}' }] });
  await assert.rejects(ask('192.168.1.10'), isCode('conflict', /there is a host raspberrypi/));
});

test('a host whose address nobody reaches is told so before it has anything of the cluster, and of --behind-nat', async () => {
  await using host = await startHost();
  const asking = { signal: AbortSignal.timeout(60_000), port: host.port };
  const joining = { hostId: 'h4', address: '127.0.0.1' };
  await assert.rejects(
    askToJoin(host.token, { ...joining, answersAt: 1 }, asking),
    isCode('conflict', /does not reach this machine at 127\.0\.0\.1:1 \(.*ECONNREFUSED.*--behind-nat/),
  );
  // Whoever answers there a moment later, in the place of an agent that ended, is reached.
  const port = await freePort();
  const door = createServer();
  const late = askToJoin(host.token, { ...joining, answersAt: port }, asking);
  setTimeout(() => door.listen(port, '127.0.0.1'), 100);
  assert.equal((await late).lease.address, '127.0.0.1');
  door.close();
  // Whom it reaches it lets in, under the same name.
  assert.equal((await askToJoin(host.token, { ...joining, answersAt: host.port }, asking)).lease.address, '127.0.0.1');
});
