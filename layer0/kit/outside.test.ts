import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { test } from 'node:test';
import { hasCode } from './errors.ts';
import { listenOn } from './listening.ts';
import { silentLogger } from './log.ts';
import { Outside } from './outside.ts';

test('outside is what is neither this machine, nor its link, nor a host or a container of the cluster', () => {
  const outside = new Outside();
  outside.setInside(['192.0.2.7', '10.100.3.0/24', 'not an address']);
  const rows: readonly (readonly [string, boolean])[] = [
    ['198.51.100.1', true],
    ['192.0.2.8', true],
    ['10.100.4.1', true],
    ['2001:db8::1', true],
    ['192.0.2.7', false],
    ['10.100.3.9', false],
    ['100.100.7.2', false],
    ['127.0.0.1', false],
    ['127.255.0.1', false],
    ['0.0.0.0', false],
    ['169.254.169.254', false],
    ['239.0.0.1', false],
    ['255.255.255.255', false],
    ['::1', false],
    ['::', false],
    ['fe80::1', false],
    ['ff02::1', false],
    ['::ffff:127.0.0.1', false],
    ['::ffff:192.0.2.7', false],
    ['example.com', false],
  ];
  for (const [address, isOutside] of rows) assert.equal(outside.has(address), isOutside, address);
  assert.throws(
    () => outside.check('127.0.0.1'),
    (error) => hasCode(error, 'denied'),
  );
  outside.check('198.51.100.1');
  outside.check('a-name');
});

test('a connection to what has come to be inside is closed, and no other', async (t) => {
  const server = createServer((socket) => socket.on('error', () => undefined));
  t.after(() => server.close());
  const port = await listenOn(server, { name: 'test', at: { host: '127.0.0.1', port: 0 }, log: silentLogger() });
  const socket = connect(port, '127.0.0.1');
  t.after(() => socket.destroy());
  await once(socket, 'connect');
  const outside = new Outside([]);
  await outside.closeInside([socket]);
  assert.equal(socket.destroyed, false);
  outside.setInside(['127.0.0.0/8']);
  await outside.closeInside([socket]);
  assert.equal(socket.closed, true);
});

test('who may lead inside leads neither to its link, nor by a name to itself', async () => {
  for (const host of ['169.254.169.254', 'fe80::1', '::ffff:169.254.169.254']) {
    assert.throws(() => Outside.chosen(host).check(host), /inside/, host);
  }
  for (const host of ['127.0.0.1', '100.100.7.2', '192.0.2.7', '::1']) Outside.chosen(host).check(host);
  const named = Outside.chosen('chat.example.com');
  const seen = ['127.0.0.1', '169.254.169.254', '::1', '100.100.7.2', '192.0.2.7'].map((one) => named.has(one));
  assert.deepEqual(seen, [false, false, false, true, true]);
});

test('a name that leads inside is found nowhere, however it is asked for', async () => {
  const outside = new Outside();
  for (const all of [true, false]) {
    const asked = new Promise<void>((resolve, reject) => {
      outside.lookup('localhost', { all }, (error) => (error === null ? resolve() : reject(error)));
    });
    await assert.rejects(asked, /localhost is inside the cluster/);
  }
});
