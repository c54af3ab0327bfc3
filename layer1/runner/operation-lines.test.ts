import assert from 'node:assert/strict';
import { test } from 'node:test';
import { operations } from '@flynn/controller/operations/api';
import { FlynnError } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import { handle, startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { OperationLines, nextBatch } from './operation-lines.ts';

type Append = { offset: number; lines: string[] };

/** A controller whose `append` is `answer`. */
async function startLog(answer: (append: Append) => Promise<void>) {
  const handlers = [handle(operations.append, ({ body: { offset, lines } }) => answer({ offset, lines }))];
  const server = await startServer({ name: 'controller', handlers, port: 0, host: '127.0.0.1', log: silentLogger() });
  const client = new HttpClient({ baseUrl: server.url, name: 'the controller' });
  return {
    client,
    async [Symbol.asyncDispose]() {
      await client.close();
      await server.close();
    },
  };
}

const params = { runner: 'r', operation: 'o' };

test('lines written together go in one batch, in order', async () => {
  const got: Append[] = [];
  await using log = await startLog(async (append) => void got.push(append));
  await using lines = new OperationLines(log.client, params, 'token');
  await lines.write('a', 'b');
  await lines.write('c\nd');
  await lines.flush();
  await lines.write('e');
  await lines.flush();
  assert.deepEqual(got, [
    { offset: 0, lines: ['a', 'b', 'c', 'd'] },
    { offset: 4, lines: ['e'] },
  ]);
});

test('a batch whose answer was lost is sent again as it was, and what came meanwhile after it', async () => {
  const got: Append[] = [];
  await using log = await startLog(async (append) => {
    got.push(append);
    if (got.length > 1) return;
    await lines.write('later');
    throw new FlynnError('unavailable', 'being replaced');
  });
  await using lines = new OperationLines(log.client, params, 'token');
  await lines.write('first');
  await lines.flush();
  assert.deepEqual(got, [
    { offset: 0, lines: ['first'] },
    { offset: 0, lines: ['first'] },
    { offset: 1, lines: ['later'] },
  ]);
});

test('an operation that is another runner’s now aborts the work', async () => {
  await using log = await startLog(async () => {
    throw new FlynnError('conflict', 'operation o is held by another runner');
  });
  await using lines = new OperationLines(log.client, params, 'token');
  await lines.write('a');
  await assert.rejects(lines.flush(), { code: 'conflict' });
  assert.equal(lines.signal.aborted, true);
});

test('a batch is bounded by lines and by size, and never empty', () => {
  assert.equal(nextBatch(Array.from({ length: 5_000 }, () => 'x')).length, 1_000);
  assert.equal(nextBatch(Array.from({ length: 10 }, () => 'x'.repeat(200_000))).length, 2);
  assert.equal(nextBatch(['x'.repeat(1_000_000), 'y']).length, 1);
  for (const wide of ['\u0001', '\uFFFD', '語']) {
    const batch = nextBatch(Array.from({ length: 1_000 }, () => wide.repeat(2_700)));
    assert.ok(Buffer.byteLength(JSON.stringify(batch)) < 1_000_000, `${batch.length} lines of ${JSON.stringify(wide)}`);
  }
});
