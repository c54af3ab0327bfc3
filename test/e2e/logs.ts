import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { freePort } from '@flynn/kit/testing-ports';
import type { TestCluster } from '../test-cluster.ts';

const deadlineMs = 180_000;

async function found(cluster: TestCluster, text: string): Promise<string[]> {
  const { stdout } = await cluster.flynn(['-a', 'hello', 'log', '--raw', '--search', text], { code: 'any' });
  return stdout.split('\n').filter((line) => line !== '');
}

async function untilFound(cluster: TestCluster, text: string, wanted: readonly string[]): Promise<void> {
  await waitFor(async () => JSON.stringify(await found(cluster, text)) === JSON.stringify(wanted), {
    what: `${wanted.join(', ')} in the log`,
    deadlineMs,
    intervalMs: 300,
  });
}

async function say(cluster: TestCluster, text: string): Promise<void> {
  await cluster.flynn(['-a', 'hello', 'run', 'echo', text]);
}

export function describeLogs(theCluster: () => TestCluster): void {
  test('lines are there once, and in their order, after the log aggregator was killed', async () => {
    const cluster = theCluster();
    await say(cluster, 'kept 1');
    await untilFound(cluster, 'kept', ['kept 1']);
    const [container] = await cluster.containers('log-aggregator', 'web');
    assert.ok(container);
    await cluster.docker('kill', container);
    await say(cluster, 'kept 2');
    await untilFound(cluster, 'kept', ['kept 1', 'kept 2']);
  });

  test('what a drain cannot send while the other side is away waits, and arrives when it is back', async () => {
    const cluster = theCluster();
    const port = await freePort();
    await cluster.flynn(['drain', 'add', '-a', 'hello', `syslog+tcp://${cluster.host.gateway}:${port}`]);
    const drains = async () => {
      const { stdout } = await cluster.flynn(['drain', '--json']);
      return JSON.parse(stdout) as { id: string; progress?: { sent: number; waiting: number; error?: string } }[];
    };
    const untilDrain = async (
      what: string,
      isSo: (progress: { sent: number; waiting: number; error?: string }) => boolean,
    ) =>
      waitFor(
        async () => {
          const progress = (await drains())[0]?.progress;
          return progress !== undefined && isSo(progress);
        },
        { what, deadlineMs, intervalMs: 300 },
      );
    await untilDrain('the log aggregator to hear of the drain', () => true);
    await say(cluster, 'to be drained');
    await untilDrain('the line to wait', ({ waiting, error }) => waiting > 0 && error !== undefined);
    let received = '';
    const server = createServer((socket) => socket.on('data', (chunk) => (received += chunk.toString())));
    server.listen(port, cluster.host.gateway);
    await once(server, 'listening');
    try {
      await untilDrain('the line to be sent', ({ waiting, sent }) => waiting === 0 && sent > 0);
      await waitFor(() => received.includes('to be drained'), { what: 'the line', deadlineMs });
      assert.match(received, /^\d+ <14>1 \S+ \S+ hello run\.\S+ stdout - to be drained/m);
    } finally {
      const [drain] = await drains();
      await cluster.flynn(['drain', 'remove', drain?.id ?? '']);
      server.close();
    }
    assert.deepEqual(await drains(), []);
  });

  test('the log of a deleted app goes with it', async () => {
    const cluster = theCluster();
    await cluster.flynn(['create', 'short-lived']);
    const { stdout } = await cluster.flynn(['-a', 'short-lived', 'info', '--json']);
    const { id } = JSON.parse(stdout) as { id: string };
    const kept = async () => {
      const [container = ''] = await cluster.containers('log-aggregator', 'web');
      return (await cluster.docker('exec', container, 'ls', '/data/apps')).stdout.split('\n');
    };
    // Following makes its log, as a first line would, and ends with it.
    const following = cluster.flynn(['-a', 'short-lived', 'log', '-f'], { timeoutMs: 600_000 });
    await waitFor(async () => (await kept()).includes(id), { what: 'the log', deadlineMs, intervalMs: 300 });
    await cluster.flynn(['-a', 'short-lived', 'delete', '-y']);
    await waitFor(async () => !(await kept()).includes(id), { what: 'the log to go', deadlineMs, intervalMs: 300 });
    await following;
  });
}
