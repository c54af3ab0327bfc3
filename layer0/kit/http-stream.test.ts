import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { buffer, text } from 'node:stream/consumers';
import { test } from 'node:test';
import { z } from 'zod';
import { FlynnError, hasCode } from './errors.ts';
import { handle } from './http-server.ts';
import { startLoopback } from './loopback.ts';
import { defineRoute, linesType } from './routes.ts';

const uploadRoute = defineRoute({
  method: 'PUT',
  path: '/blobs/*name',
  body: 'stream',
  response: z.object({ name: z.string(), bytes: z.number() }),
  summary: 'store a blob',
});
const downloadRoute = defineRoute({ method: 'GET', path: '/blobs/*name', response: 'stream', summary: 'get a blob' });

test('bytes stream up and down unchanged, under names with slashes', async () => {
  const blobs = new Map<string, Buffer>();
  await using it = await startLoopback([
    handle(uploadRoute, async ({ params, body }) => {
      const bytes = await buffer(body);
      blobs.set(params.name, bytes);
      return { name: params.name, bytes: bytes.length };
    }),
    handle(downloadRoute, async ({ params }) => {
      const blob = blobs.get(params.name);
      if (blob === undefined) throw new FlynnError('not_found', `no blob ${params.name}`);
      return {
        body: Readable.from([blob.subarray(0, 7), blob.subarray(7)]),
        headers: { 'x-size': String(blob.length) },
      };
    }),
  ]);
  const bytes = Buffer.alloc(6 * 1024 * 1024, 'flynn ');
  const halves = Readable.from([bytes.subarray(0, 1000), bytes.subarray(1000)]);
  const stored = await it.client.call(uploadRoute, { params: { name: 'a/b c.tar' }, body: halves });
  assert.deepEqual(stored, { name: 'a/b c.tar', bytes: bytes.length });
  const back = await buffer(await it.client.stream(downloadRoute, { params: { name: 'a/b c.tar' } }));
  assert.ok(back.equals(bytes));
  await assert.rejects(it.client.stream(downloadRoute, { params: { name: 'none' } }), (error) =>
    hasCode(error, 'not_found'),
  );
});

test('a stream is answered with the content type that its route says', async () => {
  const plain = defineRoute({ method: 'GET', path: '/bytes', response: 'stream', summary: 'bytes' });
  const lines = defineRoute({ ...plain, path: '/lines', responseType: linesType });
  const answer = async () => ({ body: Readable.from(['{}\n']), headers: { 'x-size': '3' } });
  await using it = await startLoopback([handle(plain, answer), handle(lines, answer)]);
  for (const { path, responseType } of [plain, lines]) {
    const { headers } = await fetch(it.server.url + path);
    assert.deepEqual([headers.get('content-type'), headers.get('x-size')], [responseType, '3']);
  }
});

test('a handler that refuses an upload half way is heard by the uploader', async () => {
  await using it = await startLoopback([
    handle(uploadRoute, async ({ body }) => {
      for await (const _chunk of body) throw new FlynnError('exhausted', 'the disk is full');
      return { name: '', bytes: 0 };
    }),
  ]);
  const body = Readable.from(
    (async function* endless() {
      for (let sent = 0; sent < 400; sent += 1) yield Buffer.alloc(64 * 1024);
    })(),
  );
  await assert.rejects(it.client.call(uploadRoute, { params: { name: 'big' }, body }), (error) =>
    hasCode(error, 'exhausted'),
  );
});

test('an uploader that goes away before the handler reads is heard by it then, and by nobody else', async () => {
  const began = Promise.withResolvers<void>();
  const isGone = Promise.withResolvers<void>();
  const failed = Promise.withResolvers<unknown>();
  await using it = await startLoopback([
    handle(uploadRoute, async ({ body, signal }) => {
      signal.addEventListener('abort', () => isGone.resolve(), { once: true });
      began.resolve();
      // As a disk that has to be asked first. What the body fails with meanwhile has no reader yet.
      await isGone.promise;
      await new Promise((resolve) => setImmediate(resolve));
      const bytes = await buffer(body).catch((error: unknown) => {
        failed.resolve(error);
        throw error;
      });
      return { name: '', bytes: bytes.length };
    }),
  ]);
  const leaving = new AbortController();
  const body = Readable.from(
    (async function* halting() {
      yield Buffer.from('half');
      await began.promise;
      leaving.abort(new FlynnError('cancelled', 'enough'));
      await failed.promise;
    })(),
  );
  const call = it.client.call(uploadRoute, { params: { name: 'x' }, body }, { signal: leaving.signal });
  await assert.rejects(call);
  assert.ok(hasCode(await failed.promise, 'cancelled'));
});

test('a download that fails half way fails for the reader too', async () => {
  await using it = await startLoopback([
    handle(downloadRoute, async () => ({
      body: Readable.from(
        (async function* broken() {
          yield Buffer.from('first');
          throw new Error('the disk died');
        })(),
      ),
    })),
  ]);
  const stream = await it.client.stream(downloadRoute, { params: { name: 'x' } });
  await assert.rejects(text(stream), (error) => hasCode(error, 'unavailable'));
});

test('a download that breaks off before it is read fails for who reads it then, and for nobody else', async () => {
  await using it = await startLoopback([
    handle(downloadRoute, async () => ({
      body: Readable.from(
        (async function* endless() {
          yield Buffer.from('first');
          await new Promise(() => undefined);
        })(),
      ),
    })),
  ]);
  const stream = await it.client.stream(downloadRoute, { params: { name: 'x' } });
  const closed = new Promise((resolve) => stream.once('close', resolve));
  await it.client.close();
  await closed;
  await assert.rejects(text(stream), (error) => hasCode(error, 'unavailable'));
});
