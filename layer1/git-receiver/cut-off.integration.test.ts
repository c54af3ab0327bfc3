/** Pushes whose connection breaks, wherever it does. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { remoteHead, setUp } from './testing.ts';

/** Passes a connection on until the client has sent so many bytes, then breaks it off. */
async function openCutter(t: TestContext, port: number, limit: number) {
  let sent = 0;
  const server = createServer((client) => {
    const upstream = connect(port, '127.0.0.1');
    const end = (): void => {
      client.destroy();
      upstream.destroy();
    };
    for (const socket of [client, upstream]) socket.on('error', end).on('close', end);
    upstream.pipe(client);
    client.on('data', (chunk: Buffer) => {
      const room = limit - sent;
      sent += chunk.length;
      upstream.write(chunk.subarray(0, room));
      if (chunk.length >= room) setImmediate(end);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const address = server.address();
  assert.ok(address !== null && typeof address === 'object');
  return { port: address.port, sent: () => sent };
}

test(
  'a push that is cut off anywhere leaves nothing behind, and the next one is taken',
  { timeout: 180_000 },
  async (t) => {
    const world = await setUp(t, (index) => ({ lines: index === 0 ? ['whole'] : ['-----> Building'] }));
    await world.commit({ large: randomBytes(2 * 1024 * 1024) });
    const through = (port: number, app: string): Promise<{ code: number; output: string }> =>
      world.git(['push', `ssh://git@127.0.0.1:${port}/${app}.git`, 'main'], { sshPort: port });
    const whole = await openCutter(t, world.receiver.port, Number.MAX_SAFE_INTEGER);
    const first = await through(whole.port, 'other');
    assert.equal(first.code, 0, first.output);

    for (let tenth = 1; tenth < 10; tenth += 1) {
      const cutter = await openCutter(t, world.receiver.port, Math.floor((whole.sent() * tenth) / 10));
      const cut = await through(cutter.port, 'app');
      assert.notEqual(cut.code, 0, `cut off after ${tenth * 10} %: ${cut.output}`);
    }
    const objects = join(world.dir, 'repos/id-app.git/objects');
    await waitFor(async () => (await readdir(objects)).every((name) => !name.startsWith('tmp_')), {
      what: 'what was cut off to be gone',
      deadlineMs: 60_000,
    });
    assert.equal(await remoteHead(world), '');
    assert.equal(world.pushes.length, 1, 'nothing was built of half a push');
    const next = await world.git(['push', world.remote('app'), 'main']);
    assert.equal(next.code, 0, next.output);
    assert.notEqual(await remoteHead(world), '');
  },
);
