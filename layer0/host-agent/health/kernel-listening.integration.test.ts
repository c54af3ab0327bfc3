import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { shortId } from '@flynn/kit/ids';
import { waitFor } from '@flynn/kit/retry';
import { testLabels } from '@flynn/kit/testing-label';
import { openDocker } from '../docker/fixture.ts';
import { listensItself } from './kernel-listening.ts';

const image = process.env['FLYNN_TEST_NODE_IMAGE'] ?? 'flynn/node:dev';

void test('a container in the host’s network listens at a port of this process once it does so itself', async () => {
  const fixture = await openDocker();
  const { engine } = fixture;
  const before = createServer().listen({ port: 0, host: '127.0.0.1', reusePort: true });
  try {
    await new Promise((resolve) => before.once('listening', resolve));
    const { port } = before.address() as AddressInfo;
    const listen = `require('node:net').createServer().listen({ port: ${port}, host: '127.0.0.1', reusePort: true })`;
    const script = `process.stdin.once('data', () => ${listen})`;
    const id = await engine.create({
      name: `flynn-listening-${shortId()}`,
      labels: testLabels,
      imageRef: await engine.ensureImage({ name: image }),
      hostname: 'listening',
      command: ['node', '-e', script],
      env: { PATH: '/usr/bin:/bin' },
      network: { type: 'host' },
      volumes: [],
      tty: false,
      stdin: true,
      limits: { memoryBytes: 128 * 2 ** 20, cpuMillis: 500, pids: 50, files: 100 },
    });
    const { pid } = await engine.start(id);
    assert.ok(pid !== undefined);
    assert.equal(listensItself({ id, pid }, port), false, 'its port answers all the same');
    using attachment = await engine.attach(id, { stdin: true, logs: false });
    await attachment.write(Buffer.from('listen\n'));
    const listens = async () => listensItself({ id, pid }, port);
    await waitFor(listens, { what: 'the container to listen', deadlineMs: 30_000, intervalMs: 20 });
    await engine.remove(id);
    assert.equal(await listens(), false);
  } finally {
    before.close();
    await fixture.close();
  }
});
