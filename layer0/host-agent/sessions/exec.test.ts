/** A client joined to a process beside a job, over a pair of streams and the memory engine. */
import assert from 'node:assert/strict';
import { duplexPair } from 'node:stream';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { encodeFrame, readFrames } from '@flynn/kit/frames';
import type { Frame } from '@flynn/kit/frames';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import type { Engine } from '../engine/engine.ts';
import { joinProcess } from './exec.ts';
import { createMemoryEngine } from '../engine/memory.ts';

async function startContainer(): Promise<{ engine: Engine; id: string }> {
  const engine = createMemoryEngine();
  const id = await engine.create({
    name: 'beside',
    labels: {},
    imageRef: await engine.ensureImage({ name: 'any' }),
    hostname: 'h',
    command: ['sh', '-c', 'sleep 1000'],
    env: {},
    network: { type: 'bridge', name: 'n', dns: [] },
    volumes: [],
    tty: false,
    stdin: false,
    limits: {},
  });
  await engine.start(id);
  return { engine, id };
}

async function join(t: TestContext, script: string, tty = false) {
  const { engine, id } = await startContainer();
  t.after(() => engine.remove(id));
  const beside = await engine.exec(id, { command: ['sh', '-c', script], tty, stdin: true });
  const [client, server] = duplexPair();
  const joined = joinProcess(
    { beside, tty, size: tty ? { columns: 80, rows: 24 } : undefined, log: silentLogger() },
    server,
  );
  return { beside, client, joined };
}

test('input goes in, output comes out, and the exit code last', async (t) => {
  const { client, joined } = await join(t, 'echo ready; cat; exit 3');
  client.write(encodeFrame({ kind: 'stdin', data: Buffer.from('spoken') }));
  client.write(encodeFrame({ kind: 'stdin-end' }));
  const frames: Frame[] = [];
  for await (const frame of readFrames(client)) frames.push(frame);
  await joined;
  const said = frames.flatMap((frame) => (frame.kind === 'stdout' ? [frame.data.toString()] : []));
  assert.equal(said.join(''), 'ready\nspoken');
  assert.deepEqual(frames.at(-1), { kind: 'exit', code: 3 });
});

test('a signal reaches the process, and its exit code tells', async (t) => {
  const { client, joined } = await join(t, 'echo ready; sleep 1000');
  const frames: Frame[] = [];
  for await (const frame of readFrames(client)) {
    frames.push(frame);
    if (frame.kind === 'stdout') client.write(encodeFrame({ kind: 'signal', signal: 'SIGINT' }));
  }
  await joined;
  assert.deepEqual(frames.at(-1), { kind: 'exit', code: 130 });
});

for (const { tty, code } of [
  { tty: false, code: 143 },
  { tty: true, code: 129 },
]) {
  test(`a client that goes takes its process along, ${tty ? 'as a terminal that closes' : 'as one that ends'} does`, async (t) => {
    const { beside, client, joined } = await join(t, 'echo ready; sleep 1000', tty);
    await waitFor(() => client.readableLength > 0, { what: 'its first words', deadlineMs: 30_000, intervalMs: 1 });
    client.destroy();
    await joined;
    assert.equal(await beside.exitCode(), code);
  });
}
