import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { connect } from 'node:tls';
import type { ConnectionOptions } from 'node:tls';
import * as fc from 'fast-check';
import { maxHelloBytes, readClientHello } from './client-hello.ts';

/** What a real client says first. */
async function helloOf(options: ConnectionOptions): Promise<Buffer> {
  await using server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const client = connect({ host: '127.0.0.1', port, ...options });
  client.on('error', () => client.destroy());
  const [socket] = await once(server, 'connection');
  const [bytes] = await once(socket, 'data');
  client.destroy();
  socket.destroy();
  return bytes;
}

/** The same handshake message in records of these sizes. */
function inRecords(hello: Buffer, sizes: readonly number[]): Buffer {
  const message = hello.subarray(5);
  const parts: Buffer[] = [];
  for (let at = 0, index = 0; at < message.length; index += 1) {
    const part = message.subarray(at, at + (sizes[index % sizes.length] ?? 1));
    parts.push(Buffer.from([22, 3, 1, part.length >> 8, part.length & 255]), part);
    at += part.length;
  }
  return Buffer.concat(parts);
}

test('the server name and the protocols of real clients are read, of TLS 1.2 and 1.3', async () => {
  for (const maxVersion of ['TLSv1.2', 'TLSv1.3'] as const) {
    const hello = await helloOf({ servername: 'Shop.Example.com', ALPNProtocols: ['h2', 'http/1.1'], maxVersion });
    assert.deepEqual(readClientHello(hello), { serverName: 'shop.example.com', protocols: ['h2', 'http/1.1'] });
  }
  assert.deepEqual(readClientHello(await helloOf({})), { serverName: undefined, protocols: [] });
});

test('a hello in any records and pieces says the same, and until it is whole: more', async () => {
  const hello = await helloOf({ servername: 'a.test', ALPNProtocols: ['acme-tls/1'] });
  const said = { serverName: 'a.test', protocols: ['acme-tls/1'] };
  fc.assert(
    fc.property(
      fc.array(fc.integer({ min: 1, max: 300 }), { minLength: 1, maxLength: 5 }),
      fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }),
      (sizes, cut) => {
        const whole = inRecords(hello, sizes);
        assert.deepEqual(readClientHello(whole), said);
        assert.equal(readClientHello(whole.subarray(0, Math.floor(cut * whole.length))), 'more');
      },
    ),
  );
});

test('whatever is said, it is answered, and never more than the limit is waited for', async () => {
  const hello = await helloOf({ servername: 'a.test' });
  const changed = fc
    .array(fc.tuple(fc.nat(hello.length - 1), fc.nat(255)), { minLength: 1, maxLength: 8 })
    .map((changes) => {
      const bytes = Buffer.from(hello);
      for (const [at, value] of changes) bytes[at] = value;
      return bytes;
    });
  fc.assert(
    fc.property(fc.oneof(changed, fc.uint8Array({ maxLength: 300 })), (bytes) => {
      const outcome = readClientHello(bytes);
      assert.ok(outcome === 'more' || outcome === 'none' || Array.isArray(outcome.protocols));
      const padding = Buffer.alloc(maxHelloBytes + 1);
      assert.notEqual(readClientHello(Buffer.concat([bytes, padding])), 'more');
    }),
  );
});

test('what is no hello is told at once', () => {
  for (const text of ['GET / HTTP/1.1\r\n', 'SSH-2.0-x\r\n', '\u0016\u0002']) {
    assert.equal(readClientHello(Buffer.from(text, 'latin1')), 'none');
  }
  assert.equal(readClientHello(Buffer.from([22, 3, 1, 0, 0])), 'none');
  assert.equal(readClientHello(Buffer.from([22, 3, 1, 0, 4, 2, 0, 0, 1])), 'none', 'a ServerHello');
  assert.equal(readClientHello(Buffer.from([22, 3, 1, 0, 4, 1, 255, 0, 0])), 'none', 'longer than any');
});
