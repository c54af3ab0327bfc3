import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { keyOf, timesIn, unansweredInKernel } from './tcp-table.ts';

const heading = '  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode';
const line = (remote: string, state: string, rest: string) =>
  `   0: 010200C0:815C ${remote} ${state} ${rest} 29129192 3 0`;

test('addresses are written as the kernel writes them', () => {
  assert.equal(keyOf('192.0.2.2:8080'), '020200C0:1F90');
  assert.equal(keyOf('[::1]:80'), '00000000000000000000000001000000:0050');
  assert.equal(keyOf('[2001:db8::a:1]:443'), 'B80D0120000000000000000001000A00:01BB');
  assert.equal(keyOf('[::ffff:192.0.2.2]:80'), '0000000000000000FFFF0000020200C0:0050');
  assert.equal(keyOf('example.test:80'), undefined);
});

test('what was sent in vain counts, by whatever the kernel waits for', () => {
  const key = '020200C0:1F90';
  const timesOf = (state: string, rest: string, remote = key) =>
    [...timesIn(`${heading}\n${line(remote, state, rest)}\n`, new Set([key]))].map(([, times]) => times);
  assert.deepEqual(timesOf('01', '00000004:00000000 01:00000097 00000003     0        0'), [3]);
  assert.deepEqual(timesOf('01', '00000000:00000000 02:0000002C 00000000     0        2'), [2]);
  assert.deepEqual(timesOf('01', '00000000:00000000 04:0000002C 00000000     0       12'), [12]);
  assert.deepEqual(timesOf('08', '00000004:00000000 01:00000097 0000000A     0        0'), [10]);
  // It waits for its own answers, which all come.
  assert.deepEqual(timesOf('01', '00000004:00000000 01:00000014 00000000     0        0'), []);
  assert.deepEqual(timesOf('01', '00000000:00000000 02:000005DC 00000000     0        0'), []);
  assert.deepEqual(timesOf('01', '00000000:00000000 00:00000000 00000000     0        0'), []);
  // Still being dialled: that has a limit of its own.
  assert.deepEqual(timesOf('02', '00000001:00000000 01:00000097 00000003     0        0'), []);
  assert.deepEqual(timesOf('01', '00000004:00000000 01:00000097 00000003     0        0', '030200C0:1F90'), []);
  assert.deepEqual([...timesIn(heading, new Set([key]))], []);
});

test('a peer that does not read is one that answers', async (t) => {
  const server = createServer((socket) => socket.pause());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const socket = connect(port, '127.0.0.1');
  t.after(() => {
    socket.destroy();
    server.close();
  });
  await once(socket, 'connect');
  socket.write(Buffer.alloc(16_000_000));
  const address = `127.0.0.1:${port}`;
  const isAsked = async () =>
    new RegExp(`${keyOf(address)} 01 \\S+ 04:`).test(await readFile('/proc/net/tcp', 'latin1'));
  await waitFor(isAsked, { what: 'its window to be full', deadlineMs: 30_000 });
  // One may be on its way in this very moment.
  for (const [, times] of await unansweredInKernel([address, 'example.test:80'])) assert.ok(times < 2, String(times));
});
