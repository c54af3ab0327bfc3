/** Thousands of clients at once, against a router that is a process of its own. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { startRawBackend } from './raw-backend.ts';
import { startPlane, startRouterProcess } from './router-process.ts';
import { talk } from './talk.ts';

const host = 'Host: app.test\r\n';
const request = `GET / HTTP/1.1\r\n${host}\r\n`;
/** Made at the same time; a queue of connections that nobody has accepted yet is not endless. */
const atOnce = 200;
/** Those of the router itself: it follows the platform. */
const ownStreams = 10;
const patienceMs = 60_000;

/** What the machine lets one process open, less what it opens anyway. */
function clientsWithin(wanted: number, socketsEach: number): number {
  const [, soft] = /Max open files\s+(\d+)/.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
  return Math.min(wanted, Math.floor((Number(soft) - 500) / socketsEach));
}

/** Each has said its request and got that much of the answer. */
async function gather(port: number, count: number, until: RegExp): Promise<Socket[]> {
  const clients: Socket[] = [];
  while (clients.length < count) {
    const group = Array.from({ length: Math.min(atOnce, count - clients.length) }, () => connect(port, '127.0.0.1'));
    await Promise.all(
      group.map(async (client) => {
        let answer = '';
        client.write(request);
        while (!until.test(answer)) {
          const [chunk] = (await once(client, 'data', { signal: AbortSignal.timeout(patienceMs) })) as [Buffer];
          answer += chunk.toString('latin1');
        }
      }),
    );
    clients.push(...group);
  }
  return clients;
}

const socketsOf = (pid: number) => readdirSync(`/proc/${pid}/fd`).length;

test('10,000 idle clients cost little, are still answered, and leave nothing', async (t) => {
  const { plane, url } = await startPlane(t);
  plane.setRoute({ id: 'r1', domain: 'app.test' });
  const backend = await startRawBackend(
    t,
    (socket) => void socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'),
  );
  plane.up('web', backend.address);
  const router = await startRouterProcess(t, url);
  const quietFiles = socketsOf(router.pid);
  const count = clientsWithin(10_000, 1);
  const clients = await gather(router.port, count, /ok$/);
  t.after(async () => clients.forEach((client) => client.destroy()));
  t.diagnostic(`${count} idle clients: ${router.residentMb().toFixed(0)} MB resident`);
  assert.ok(router.residentMb() < 500, `${router.residentMb()} MB`);
  for (const client of [clients[0], clients.at(-1)]) {
    client?.write(request);
    if (client !== undefined) await once(client, 'data', { signal: AbortSignal.timeout(patienceMs) });
  }
  for (const client of clients) client.destroy();
  await waitFor(() => socketsOf(router.pid) <= quietFiles + atOnce, {
    what: 'the connections to be gone',
    deadlineMs: 30_000,
  });
  const { answer } = await talk(router.port, [request.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n')], {
    quietMs: 10_000,
  });
  assert.match(answer, /^HTTP\/1\.1 200 /);
});

test('5,000 readers of event streams who all leave at once leave no connection to the backend', async (t) => {
  const { plane, url } = await startPlane(t);
  plane.setRoute({ id: 'r1', domain: 'app.test' });
  const backend = await startRawBackend(t, (socket) => {
    socket.write('HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n');
  });
  plane.up('web', backend.address);
  const router = await startRouterProcess(t, url);
  const quietFiles = socketsOf(router.pid);
  const count = clientsWithin(5_000, 2);
  const clients = await gather(router.port, count, /data: 1\n/);
  assert.equal(backend.sockets.size, count);
  for (const socket of backend.sockets) socket.write('data: 2\n\n');
  for (const client of clients) client.destroy();
  await waitFor(() => backend.sockets.size === 0, {
    what: 'the connections to the backend to be gone',
    deadlineMs: 30_000,
  });
  await waitFor(() => socketsOf(router.pid) <= quietFiles + ownStreams, {
    what: 'the connections of the router to be gone',
    deadlineMs: 30_000,
  });
});
