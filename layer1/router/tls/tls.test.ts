import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { Agent, request } from 'node:https';
import { connect as connectPlain } from 'node:net';
import { buffer, text } from 'node:stream/consumers';
import { test } from 'node:test';
import { connect } from 'node:tls';
import { waitFor } from '@flynn/kit/retry';
import { createAuthority } from '@flynn/kit/tls';
import type { Credentials } from '@flynn/kit/tls';
import { closed } from '@flynn/kit/testing-sockets';
import { settled, startBackend } from '../testing.ts';
import { servedBy, setUpTls, shake } from './testing.ts';
import type { TlsWorld } from './testing.ts';

type Asked = { status: number | undefined; body: string };

async function ask(world: TlsWorld, servername: string, agent: Agent): Promise<Asked> {
  const asked = request({
    host: '127.0.0.1',
    port: world.port,
    servername,
    headers: { host: servername },
    ca: world.authority.certificate,
    agent,
  });
  asked.end();
  const [response] = await once(asked, 'response');
  return { status: response.statusCode, body: await text(response) };
}

test('a request over TLS reaches the backend, which hears that it was', async (t) => {
  const world = await setUpTls(t, {
    first: async (authority) => [await servedBy(authority, { id: 'c1', domains: ['app.test'] })],
  });
  const backend = await startBackend(t, ({ headers }, response) => {
    response.end(`${String(headers['x-forwarded-proto'])} ${String(headers['x-forwarded-port'])}`);
  });
  world.plane.up('web', backend.address);
  await settled(world.router, [backend.address]);
  const agent = new Agent({ keepAlive: true });
  t.after(() => agent.destroy());
  for (let round = 0; round < 3; round += 1) {
    assert.deepEqual(await ask(world, 'app.test', agent), { status: 200, body: `https ${world.port}` });
  }
  assert.equal(world.router.status().tls?.handshakes, 1);
});

test('bodies come through TLS byte for byte, small and large, framed either way, one after the other', async (t) => {
  const world = await setUpTls(t, {
    first: async (authority) => [await servedBy(authority, { id: 'c1', domains: ['app.test'] })],
  });
  const bodies = [1, 16_384, 65_536, 3_000_000].map((size) => randomBytes(size));
  const backend = await startBackend(t, ({ url }, response) => {
    const [, index, frame] = (url ?? '').split('/');
    const body = bodies[Number(index)] ?? Buffer.alloc(0);
    if (frame === 'length') response.setHeader('content-length', body.length);
    response.write(body.subarray(0, 1));
    response.end(body.subarray(1));
  });
  world.plane.up('web', backend.address);
  await settled(world.router, [backend.address]);
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  t.after(() => agent.destroy());
  for (const frame of ['length', 'chunks']) {
    for (const [index, body] of bodies.entries()) {
      const asked = request({
        host: '127.0.0.1',
        port: world.port,
        path: `/${index}/${frame}`,
        servername: 'app.test',
        headers: { host: 'app.test' },
        ca: world.authority.certificate,
        agent,
      });
      asked.end();
      const [response] = await once(asked, 'response');
      assert.ok((await buffer(response)).equals(body), `${body.length} bytes by ${frame}`);
    }
  }
  assert.equal(world.router.status().tls?.handshakes, 1);
});

test('to a client of HTTP/1.0 a broken answer is no end, and the router lives on', async (t) => {
  const world = await setUpTls(t, {
    first: async (authority) => [await servedBy(authority, { id: 'c1', domains: ['app.test'] })],
  });
  const backend = await startBackend(t, ({ url }, response) => {
    if (url === '/length') response.setHeader('content-length', 10);
    if (url === '/whole') response.end('whole');
    else response.write('half', () => response.destroy());
  });
  world.plane.up('web', backend.address);
  await settled(world.router, [backend.address]);
  const say = async (path: string) => {
    const { certificate: ca } = world.authority;
    const socket = connect({ host: '127.0.0.1', port: world.port, servername: 'app.test', ca });
    let [said, code] = ['', ''];
    socket.on('data', (bytes: Buffer) => (said += bytes.toString()));
    socket.on('error', (error: NodeJS.ErrnoException) => (code = error.code ?? ''));
    socket.write(`GET ${path} HTTP/1.0\r\nHost: app.test\r\n\r\n`);
    await closed(socket);
    return { said, code };
  };
  // What had not been read by then goes with the reset.
  assert.equal((await say('/until-end')).code, 'ECONNRESET');
  assert.match((await say('/length')).said, /\r\ncontent-length: 10\r\n[^]*\r\n\r\nhalf$/);
  assert.match((await say('/whole')).said, /\r\n\r\nwhole$/);
});

test('a name’s own certificate comes before a wildcard’s, which stands for one label; others get the fallback', async (t) => {
  const world = await setUpTls(t, {
    first: async (authority) => [
      await servedBy(authority, { id: 'c1', domains: ['*.app.test'] }),
      await servedBy(authority, { id: 'c2', domains: ['a.app.test', 'b.other.test'], name: 'several' }),
    ],
  });
  await world.shown('x.app.test', '*.app.test');
  await world.shown('X.App.Test', '*.app.test');
  await world.shown('a.app.test', 'several');
  await world.shown('b.other.test', 'several');
  for (const name of ['app.test', 'x.y.app.test', 'nobody.test']) {
    await world.shown(name, 'flynn: no certificate for this name');
  }
});

test('of several for one name people’s own wins, then the one that is good longest', async (t) => {
  const world = await setUpTls(t);
  const { certificates, authority } = world;
  const domains = ['app.test'];
  certificates.set(await servedBy(authority, { id: 'c3', domains, source: 'acme', name: 'short', days: 10 }));
  await world.shown('app.test', 'short');
  certificates.set(await servedBy(authority, { id: 'c2', domains, source: 'acme', name: 'long', days: 90 }));
  await world.shown('app.test', 'long');
  certificates.set(await servedBy(authority, { id: 'c1', domains, name: 'own', days: 5 }));
  await world.shown('app.test', 'own');
  certificates.remove('c1');
  await world.shown('app.test', 'long');
});

test('a certificate that is replaced is shown from the next handshake on, and connections stay', async (t) => {
  const world = await setUpTls(t, {
    first: async (authority) => [await servedBy(authority, { id: 'c1', domains: ['app.test'], name: 'first' })],
  });
  const backend = await startBackend(t, (_request, response) => void response.end('ok'));
  world.plane.up('web', backend.address);
  await settled(world.router, [backend.address]);
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  t.after(() => agent.destroy());
  assert.equal((await ask(world, 'app.test', agent)).status, 200);
  world.certificates.set(await servedBy(world.authority, { id: 'c1', domains: ['app.test'], name: 'second' }));
  await world.shown('app.test', 'second');
  const before = world.router.status().tls?.handshakes;
  assert.equal((await ask(world, 'app.test', agent)).status, 200);
  assert.equal(world.router.status().tls?.handshakes, before);
});

test('what went while the controller was away is gone when it is back, and stays until then', async (t) => {
  const world = await setUpTls(t, {
    first: async (authority) => [await servedBy(authority, { id: 'c1', domains: ['app.test'] })],
  });
  await world.shown('app.test', 'app.test');
  world.certificates.forgetQuietly('c1');
  await world.shown('app.test', 'flynn: no certificate for this name');
});

test('what a controller of another version cannot read is shown on; what that one has beside is gone', async (t) => {
  const world = await setUpTls(t, {
    first: async (authority) => [
      await servedBy(authority, { id: 'c1', domains: ['app.test'] }),
      await servedBy(authority, { id: 'c2', domains: ['other.test'] }),
    ],
  });
  await world.shown('app.test', 'app.test');
  world.certificates.cannotReadAnyMore('c1');
  world.certificates.forgetQuietly('c2');
  await world.shown('other.test', 'flynn: no certificate for this name');
  await world.shown('app.test', 'app.test');
  assert.equal(world.router.status().tls?.certificates, 1);
});

test('a certificate that has expired is served still, and the status says so', async (t) => {
  const world = await setUpTls(t, {
    first: async (authority) => [
      await servedBy(authority, { id: 'c1', domains: ['app.test'], days: 1, now: Date.now() - 5 * 24 * 3_600_000 }),
    ],
  });
  await world.shown('app.test', 'app.test');
  assert.deepEqual(world.router.status().tls?.expired, ['app.test']);
});

test('one that has not expired comes before one that has, whose own it may be and whatever name it is for', async (t) => {
  const expired = { days: 1, now: Date.now() - 5 * 24 * 3_600_000 };
  const world = await setUpTls(t, {
    first: async (authority) => [
      await servedBy(authority, { id: 'c1', domains: ['app.test'], name: 'old', ...expired }),
      await servedBy(authority, { id: 'c2', domains: ['www.other.test'], name: 'old', ...expired }),
    ],
  });
  const { certificates, authority } = world;
  await world.shown('app.test', 'old');
  await world.shown('www.other.test', 'old');
  certificates.set(await servedBy(authority, { id: 'c3', domains: ['app.test'], source: 'acme', name: 'issued' }));
  await world.shown('app.test', 'issued');
  certificates.set(await servedBy(authority, { id: 'c4', domains: ['*.other.test'], name: 'wildcard' }));
  await world.shown('www.other.test', 'wildcard');
});

test('a certificate that cannot be served costs only itself', async (t) => {
  const other = await createAuthority('other');
  const world = await setUpTls(t, {
    first: async (authority) => [
      { ...(await servedBy(authority, { id: 'c1', domains: ['app.test'] })), privateKey: other.privateKey },
      await servedBy(authority, { id: 'c2', domains: ['good.test'] }),
    ],
  });
  await world.shown('app.test', 'flynn: no certificate for this name');
  await world.shown('good.test', 'good.test');
});

test('sessions are resumed, in TLS 1.2 and 1.3', async (t) => {
  const world = await setUpTls(t, {
    first: async (authority) => [await servedBy(authority, { id: 'c1', domains: ['app.test'] })],
  });
  for (const maxVersion of ['TLSv1.2', 'TLSv1.3'] as const) {
    const common = { servername: 'app.test', ca: world.authority.certificate, maxVersion };
    const first = connect({ host: '127.0.0.1', port: world.port, ...common });
    const [session] = await once(first, 'session');
    first.destroy();
    const second = await shake(world.port, { ...common, session });
    assert.ok(second.isSessionReused(), maxVersion);
    second.destroy();
  }
});

test('a session begun at one router is resumed at another that was told the same key, and not with the next key', async (t) => {
  const first = async (authority: Credentials) => [await servedBy(authority, { id: 'c1', domains: ['app.test'] })];
  const [one, other] = [await setUpTls(t, { first }), await setUpTls(t, { first })];
  const common = { servername: 'app.test', rejectUnauthorized: false };
  const begun = async () => {
    const socket = connect({ host: '127.0.0.1', port: one.port, ...common });
    const [session] = await once(socket, 'session');
    socket.destroy();
    return session;
  };
  const isResumed = async () => {
    const socket = await shake(other.port, { ...common, session: await begun() });
    const isReused = socket.isSessionReused();
    socket.destroy();
    return isReused;
  };
  assert.equal(await isResumed(), false);
  const key = randomBytes(48);
  for (const { certificates } of [one, other]) certificates.tickets(key);
  await waitFor(isResumed, { what: 'both to have the key', deadlineMs: 30_000 });
  other.certificates.tickets(randomBytes(48));
  await waitFor(async () => !(await isResumed()), { what: 'the next key', deadlineMs: 30_000 });
});

test('the profile says what is spoken: TLS 1.1 by the old one only, CBC not by the modern', async (t) => {
  const handshakeWith = async (profile: 'modern' | 'intermediate' | 'old', wanted: object): Promise<boolean> => {
    const world = await setUpTls(t, {
      profile,
      first: async (authority) => [await servedBy(authority, { id: 'c1', domains: ['app.test'] })],
    });
    try {
      const socket = await shake(world.port, { servername: 'app.test', ca: world.authority.certificate, ...wanted });
      socket.destroy();
      return true;
    } catch {
      return false;
    }
  };
  const cbc = { maxVersion: 'TLSv1.2', ciphers: 'ECDHE-ECDSA-AES128-SHA' };
  const dated = { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' };
  assert.equal(await handshakeWith('modern', { maxVersion: 'TLSv1.2' }), true);
  assert.equal(await handshakeWith('modern', cbc), false);
  assert.equal(await handshakeWith('intermediate', cbc), true);
  assert.equal(await handshakeWith('intermediate', dated), false);
  assert.equal(await handshakeWith('old', dated), true);
});

test('http/1.1 is agreed on by name; a client that speaks none of ours is refused', async (t) => {
  const world = await setUpTls(t);
  const socket = await shake(world.port, { ALPNProtocols: ['x', 'http/1.1'], rejectUnauthorized: false });
  assert.equal(socket.alpnProtocol, 'http/1.1');
  socket.destroy();
  await assert.rejects(
    shake(world.port, { ALPNProtocols: ['x'], rejectUnauthorized: false }),
    /no application protocol/i,
  );
});

test('what is not TLS is turned away and harms nobody', async (t) => {
  const world = await setUpTls(t);
  const socket = connectPlain(world.port, '127.0.0.1');
  socket.on('error', () => {});
  socket.write('GET / HTTP/1.1\r\nHost: app.test\r\n\r\n');
  socket.resume();
  await closed(socket);
  await waitFor(() => world.router.status().tls?.failures === 1, { what: 'the failure', deadlineMs: 30_000 });
  await world.shown('x.test', 'flynn: no certificate for this name');
});
