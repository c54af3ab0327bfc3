import assert from 'node:assert/strict';
import { mkdirSync, mkdtempDisposableSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { listensElsewhere, listensItself } from './kernel-listening.ts';

const id = 'c0ffee'.padEnd(64, '0');
const port = 1114;

const heading = '  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n';
const row = (local: string, state: string, inode: number): string =>
  `   0: ${local} 00000000:0000 ${state} 00000000:00000000 00:00000000 00000000     0        0 ${inode} 1 0000000000000000 100 0 0 10 0\n`;

type Process = { group: string; sockets: readonly number[]; tcp?: string; tcp6?: string };

/** As the kernel has it below /proc. */
function kernelWith(processes: Readonly<Record<number, Process>>) {
  const folder = mkdtempDisposableSync(join(tmpdir(), 'flynn-kernel-'));
  writeFileSync(join(folder.path, 'uptime'), '');
  for (const [pid, { group, sockets, tcp = '', tcp6 }] of Object.entries(processes)) {
    const place = join(folder.path, pid);
    for (const name of ['net', 'fd']) mkdirSync(join(place, name), { recursive: true });
    writeFileSync(join(place, 'cgroup'), `0::${group}\n`);
    writeFileSync(join(place, 'net/tcp'), heading + tcp);
    if (tcp6 !== undefined) writeFileSync(join(place, 'net/tcp6'), heading + tcp6);
    symlinkSync('/dev/null', join(place, 'fd/0'));
    for (const [index, inode] of sockets.entries()) symlinkSync(`socket:[${inode}]`, join(place, `fd/${index + 1}`));
  }
  return {
    listens: (pid: number, at = port) => listensItself({ id, pid }, at, folder.path),
    elsewhere: (pid: number, at = port, known = [port]) => listensElsewhere(pid, at, known, folder.path),
    [Symbol.dispose]: () => folder[Symbol.dispose](),
  };
}

const group = `/system.slice/docker-${id}.scope`;
const other = '/system.slice/docker-bad.scope';
const first = row('0100007F:045A', '0A', 11);

test('of two that listen at one port each is known by its own socket, whichever of its processes has it', () => {
  const second = row('00000000000000000000000000000000:045A', '0A', 22);
  using kernel = kernelWith({
    100: { group, sockets: [], tcp: first, tcp6: second },
    101: { group: `${group}/of-its-own`, sockets: [7, 22] },
    200: { group: other, sockets: [11] },
  });
  assert.equal(kernel.listens(100), true);
  using before = kernelWith({
    100: { group, sockets: [7, 12], tcp: first + row('0100007F:045B', '0A', 12) },
    200: { group: other, sockets: [11] },
  });
  assert.equal(before.listens(100), false, 'the one at 1114 is the other’s');
  assert.equal(before.listens(100, 1115), true);
});

test('a connection is nobody who listens, and is not looked at among a hundred thousand', () => {
  const many = row('0100007F:1F90', '0A', 12).repeat(2_000) + first + row('0100007F:045B', '01', 13).repeat(3_000);
  using kernel = kernelWith({ 100: { group, sockets: [11, 13], tcp: many } });
  assert.equal(kernel.listens(100), true);
  assert.equal(kernel.listens(100, 1115), false);
});

test('one that ended listens nowhere; where nothing tells whose a process is, it is taken at its answer', () => {
  using kernel = kernelWith({ 100: { group: '/user.slice', sockets: [], tcp: first } });
  assert.equal(kernel.listens(100), true);
  assert.equal(kernel.listens(101), false);
});

test('who listens for itself only, or at another port, is told so; who is reached, or listens nowhere, is not', () => {
  const any = (at: string) => row(`00000000:${at}`, '0A', 1);
  const any6 = (at: string) => row(`00000000000000000000000000000000:${at}`, '0A', 2);
  const own6 = row('00000000000000000000000001000000:045A', '0A', 3);
  const mapped = row('0000000000000000FFFF00000100007F:045A', '0A', 4);
  const resolver = row('0B00007F:8D2F', '0A', 5);
  using kernel = kernelWith({
    100: { group, sockets: [], tcp: resolver + first },
    101: { group, sockets: [], tcp: resolver, tcp6: own6 + mapped },
    102: { group, sockets: [], tcp: resolver + any('0BB8'), tcp6: any6('0BB8') + any6('0050') },
    103: { group, sockets: [], tcp: first, tcp6: any6('045A') },
    104: { group, sockets: [], tcp: resolver },
    105: { group, sockets: [], tcp: row('026E6464:045A', '0A', 6) },
  });
  assert.match(kernel.elsewhere(100) ?? '', /^it listens on port 1114 of localhost only/);
  assert.match(kernel.elsewhere(101) ?? '', /^it listens on port 1114 of localhost only/);
  assert.match(kernel.elsewhere(102) ?? '', /^it listens on port 80, 3000: have it listen on 1114, which PORT says/);
  assert.equal(kernel.elsewhere(102, 9000, [80, 3000, 9000]), undefined, 'its other ports are as they should be');
  assert.match(kernel.elsewhere(102, 9000, [80, 9000]) ?? '', /^it listens on port 3000: have it listen on 9000$/);
  for (const pid of [103, 104, 105, 106]) assert.equal(kernel.elsewhere(pid), undefined, String(pid));
});

test('of this very machine: a socket of this process is found, and a closed one is not', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port: open } = server.address() as AddressInfo;
  // This process is all there is to look at, and any name of its control group does for the container's.
  using folder = mkdtempDisposableSync(join(tmpdir(), 'flynn-kernel-'));
  symlinkSync(`/proc/${process.pid}`, join(folder.path, String(process.pid)));
  const listens = () => listensItself({ id: '', pid: process.pid }, open, folder.path);
  assert.equal(listens(), true);
  await new Promise((resolve) => server.close(resolve));
  assert.equal(listens(), false);
});
