/** A copy that is sent to another store may take as long as it gets on. */
import assert from 'node:assert/strict';
import { setImmediate } from 'node:timers/promises';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { FlynnError } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import { handle } from '@flynn/kit/http-server';
import { startLoopback } from '@flynn/kit/loopback';
import { replicaRoutes } from './replica-api.ts';
import { remoteReplica } from './replica-client.ts';

const minuteMs = 60_000;
const digest = `sha256:${'a'.repeat(64)}`;

/** A store that tells of each chunk it has, and answers once it is told. */
function slowStore(chunkBytes: number) {
  const chunks: PromiseWithResolvers<void>[] = [0, 1, 2].map(() => Promise.withResolvers());
  const answering = Promise.withResolvers<void>();
  const handler = handle(replicaRoutes.copy, async ({ body, signal }) => {
    let sizeBytes = 0;
    for await (const chunk of body) {
      sizeBytes += chunk.length;
      for (let have = 1; have * chunkBytes <= sizeBytes; have += 1) chunks[have - 1]?.resolve();
    }
    signal.addEventListener('abort', () => answering.reject(new FlynnError('cancelled', 'nobody waits')));
    await answering.promise;
    return { digest, sizeBytes, usedAt: 1 };
  });
  return { handler, chunks, answer: answering.resolve };
}

async function copying(
  t: TestContext,
  client: HttpClient,
  { chunks }: ReturnType<typeof slowStore>,
  chunkBytes: number,
) {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const ended = Promise.withResolvers<void>();
  const body = async function* (): AsyncGenerator<Uint8Array> {
    for (const chunk of chunks) {
      yield Buffer.alloc(chunkBytes);
      await chunk.promise;
      t.mock.timers.tick(9 * minuteMs);
    }
    ended.resolve();
  };
  const made = remoteReplica(client).copy({ digest, usedAt: 1 }, body());
  // Its failure is for whoever waits for it; here it is only waited for what has come to its end, and is handed over a turn later.
  made.catch(() => undefined);
  await ended.promise;
  await setImmediate();
  return { made };
}

test('a copy of half an hour is whole, if each of its parts comes in time', async (t) => {
  const chunkBytes = 1024 ** 2;
  const store = slowStore(chunkBytes);
  await using loopback = await startLoopback([store.handler]);
  store.answer();
  const { made } = await copying(t, loopback.client, store, chunkBytes);
  const held = await made;
  assert.equal(held.sizeBytes, 3 * chunkBytes);
});

test('a store that has all of it and says nothing is given up, in time for how much it is', async (t) => {
  const chunkBytes = 20 * 1024 ** 2;
  const store = slowStore(chunkBytes);
  await using loopback = await startLoopback([store.handler]);
  let isOver = false;
  const { made } = await copying(t, loopback.client, store, chunkBytes);
  const over = made.finally(() => (isOver = true));
  over.catch(() => undefined);
  t.mock.timers.tick(10 * minuteMs + 59_999);
  for (let turn = 0; turn < 5; turn += 1) await setImmediate();
  assert.ok(!isOver);
  t.mock.timers.tick(1);
  await assert.rejects(made, { code: 'timeout', message: `the copy of ${digest} did not get on for 660 s` });
});
