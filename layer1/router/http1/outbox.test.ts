import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { setImmediate as endOfTurn } from 'node:timers/promises';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { closed } from '@flynn/kit/testing-sockets';
import { Outbox } from './outbox.ts';

/** `count` outboxes, and what reads all that comes out of each. */
async function open(
  t: TestContext,
  count: number,
): Promise<{ socket: Socket; outbox: Outbox; read: () => Promise<string> }[]> {
  const server = createServer().listen(0, '127.0.0.1');
  t.after(() => server.close());
  await once(server, 'listening');
  const opened = [];
  for (let n = 0; n < count; n += 1) {
    const accepted = once(server, 'connection');
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
    t.after(() => socket.destroy());
    const [peer] = (await accepted) as [Socket];
    t.after(() => peer.destroy());
    if (socket.connecting) await once(socket, 'connect');
    opened.push({ socket, outbox: new Outbox(socket), read: () => text(peer) });
  }
  return opened;
}

test('a small piece leaves at the end of the turn, and counts until then', async (t) => {
  const [one] = await open(t, 1);
  assert.ok(one);
  one.outbox.write('hello');
  assert.equal(one.socket.bytesWritten, 0);
  assert.equal(one.outbox.length, 5);
  await endOfTurn();
  assert.equal(one.socket.bytesWritten, 5);
  assert.equal(one.outbox.length, 0);
});

test('pieces of any size leave in the order in which they were given', async (t) => {
  const [one] = await open(t, 1);
  assert.ok(one);
  const { outbox } = one;
  const large = 'x'.repeat(100_000);
  outbox.write('a');
  outbox.writeNow(Buffer.from('b'));
  outbox.write(Buffer.from('c'));
  outbox.write('d');
  outbox.write('e');
  outbox.write(large);
  outbox.write('f');
  outbox.writeTogether('g', 'h');
  outbox.write('i');
  outbox.end();
  assert.equal(await one.read(), `abcde${large}fghi`);
});

test('who asks when all is out is told after what was held', async (t) => {
  const [one] = await open(t, 1);
  assert.ok(one);
  one.outbox.write('hello');
  await new Promise<void>((resolve) => one.outbox.flushed(resolve));
  assert.equal(one.socket.bytesWritten, 5);
});

test('so many that hold something do not wait for the end of the turn', async (t) => {
  const all = await open(t, 65);
  for (const { outbox } of all) outbox.write('hello');
  const written = all.map(({ socket }) => socket.bytesWritten);
  assert.deepEqual(written, [...Array.from({ length: 64 }, () => 5), 0]);
  await endOfTurn();
  assert.equal(all.at(-1)?.socket.bytesWritten, 5);
});

test('what is held for a socket that is gone is dropped without a word', async (t) => {
  const [gone, there] = await open(t, 2);
  assert.ok(gone && there);
  gone.socket.on('error', (error) => assert.fail(error));
  gone.outbox.write('hello');
  there.outbox.write('hello');
  gone.socket.destroy();
  await closed(gone.socket);
  await endOfTurn();
  assert.equal(there.socket.bytesWritten, 5);
});
