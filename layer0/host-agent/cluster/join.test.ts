import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import type { ErrorCode } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { fingerprintOf } from '@flynn/kit/certificate';
import { createAuthority, issueCertificate } from '@flynn/kit/tls';
import { openTestStore } from '@flynn/store/testing';
import { startJoinServer } from './join-server.ts';
import { askToJoin, formatToken, parseToken, passUntil } from './join.ts';

const secret = 'a secret of some length';
const isCode = (code: ErrorCode, pattern: RegExp) => (error: unknown) =>
  hasCode(error, code) && pattern.test(error.message);

async function startHost() {
  const store = openTestStore();
  const authority = await createAuthority('flynn test');
  const own = await issueCertificate(authority, { name: 'h1', addresses: ['127.0.0.1'] });
  const server = await startJoinServer({
    admission: {
      secret,
      range: '100.100.0.0/16',
      certificate: own.certificate + authority.certificate,
      privateKey: own.privateKey,
      settings: { name: 'test' },
    },
    address: '127.0.0.1',
    port: 0,
    store,
    endpoints: () => ['https://192.0.2.1:2379'],
    peers: () => ['192.0.2.1'],
    now: () => 7,
    log: silentLogger(),
    signal: new AbortController().signal,
  });
  const fingerprint = fingerprintOf(authority.certificate);
  const token = { addresses: ['127.0.0.1'], fingerprint, secret: passUntil(secret, 8) };
  return {
    token,
    ask: (hostId: string, asked = token, address = '192.0.2.2') =>
      askToJoin(asked, { hostId, address }, { signal: AbortSignal.timeout(10_000), port: server.port }),
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
    lease: { hostId: 'h2', address: '192.0.2.2', subnet: '100.100.0.0/24', joinedAt: 7 },
    endpoints: ['https://192.0.2.1:2379'],
    peers: ['192.0.2.1'],
  });
  assert.deepEqual(await host.ask('h2'), answer);
});

test('a wrong secret, another cluster, a taken id and a host that is not there are told apart', async () => {
  await using host = await startHost();
  await assert.rejects(
    host.ask('h2', { ...host.token, secret: passUntil('another secret of some length', 8) }),
    isCode('denied', /not of this cluster.*--token/),
  );
  await assert.rejects(
    host.ask('h2', { ...host.token, secret: passUntil(secret, 7) }),
    isCode('denied', /has expired.*--token/),
  );
  await assert.rejects(
    host.ask('h2', { ...host.token, fingerprint: '0'.repeat(64) }),
    isCode('unavailable', /127\.0\.0\.1: a host answers, but it is not of the cluster/),
  );
  await host.ask('h2');
  await assert.rejects(host.ask('h2', host.token, '192.0.2.77'), isCode('conflict', /host h2 at 192\.0\.2\.2/));
  const away = askToJoin(
    host.token,
    { hostId: 'h3', address: '192.0.2.3' },
    { signal: AbortSignal.timeout(10_000), port: 1 },
  );
  await assert.rejects(away, isCode('unavailable', /could be asked[^]*is port 1 open/));
});

test('a token survives copying, and what is none is told', () => {
  const token = { addresses: ['192.0.2.1', '192.0.2.2'], fingerprint: 'a'.repeat(64), secret };
  assert.deepEqual(parseToken(` ${formatToken(token)}\n`), token);
  for (const wrong of ['', 'x', formatToken(token).slice(0, 30)]) {
    assert.throws(() => parseToken(wrong), isCode('invalid', /no token to join with/));
  }
});
