import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { AnnouncerProbe, jobOf } from './host-fixture.ts';
import { JobMonitor } from './monitor.ts';

/** A job that is to listen where another does already, and answers well: it shares the port. */
async function watched(options: { startTimeoutMs: number }) {
  const before = createServer((_request, response) => response.end('from the one before')).listen(0, '127.0.0.1');
  await new Promise((resolve) => before.once('listening', resolve));
  const { port } = before.address() as AddressInfo;
  const check = { type: 'http', path: '/ping', timeoutMs: 60_000, ...options };
  const service = { name: 'router', check };
  const told: string[] = [];
  const announcer = new AnnouncerProbe();
  const it = { listens: false, asked: 0 };
  const monitor = new JobMonitor({
    job: jobOf('next', { hostNetwork: true, ports: [{ port, service }] } as never),
    address: '127.0.0.1',
    hostId: 'h1',
    mayBeAnnounced: false,
    listensItself: (asked) => {
      assert.equal(asked, port);
      it.asked += 1;
      return it.listens;
    },
    announcer,
    events: {
      onUp: () => told.push('up'),
      onDown: (message) => told.push(message),
      onNeverUp: (message) => told.push(message),
    },
    log: silentLogger(),
  });
  return Object.assign(it, {
    port,
    told,
    announcer,
    async [Symbol.asyncDispose]() {
      await monitor.stop({ keepAnnounced: false });
      await new Promise((resolve) => before.close(resolve));
    },
  });
}

test('a job is not up by the answers of the one whose port it is to share', async () => {
  await using it = await watched({ startTimeoutMs: 60_000 });
  await waitFor(() => it.asked >= 3, { what: 'three looks', deadlineMs: 30_000, intervalMs: 5 });
  assert.deepEqual([it.told, it.announcer.calls], [[], []]);
  it.listens = true;
  await waitFor(() => it.told.length > 0, { what: 'the job to be up', deadlineMs: 30_000, intervalMs: 5 });
  assert.deepEqual(it.told, ['up']);
  const { asked } = it;
  it.listens = false;
  await new Promise((resolve) => setTimeout(resolve, 250));
  assert.deepEqual([it.told, it.asked], [['up'], asked], 'once it has been up its answers are its own');
});

test('one that never listens itself is told so, though its port answers', async () => {
  await using it = await watched({ startTimeoutMs: 150 });
  await waitFor(() => it.told.length > 0, { what: 'the end of patience', deadlineMs: 30_000, intervalMs: 5 });
  assert.deepEqual(it.told, [
    `not healthy 0 s after its start: something answers on port ${it.port} of this host, but the job does not listen there`,
  ]);
});
