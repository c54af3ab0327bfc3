import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AsyncQueue } from '@flynn/kit/queue';
import { collect } from '../engine/conformance.ts';
import type { OutputChunk } from '../engine/engine.ts';
import { Session } from './session.ts';

function sessionOf(chunks: readonly OutputChunk[]): {
  session: Session;
  produced: () => number;
  output: AsyncQueue<OutputChunk>;
} {
  const output = new AsyncQueue<OutputChunk>();
  let produced = 0;
  for (const chunk of chunks) output.push(chunk);
  async function* counted() {
    for await (const chunk of output) {
      produced += 1;
      yield chunk;
    }
  }
  const close = () => output.end();
  const attachment = {
    output: counted(),
    write: async () => undefined,
    endInput: close,
    close,
    [Symbol.dispose]: close,
  };
  return { session: new Session(attachment), produced: () => produced, output };
}

const chunk = (text: string): OutputChunk => ({ stream: 'stdout', data: Buffer.from(text) });
const settled = () => new Promise((resolve) => setImmediate(resolve));

test('the first client gets what came before it, a later one only if it asks', async () => {
  const { session, output } = sessionOf([chunk('one '), chunk('two ')]);
  await settled();
  const { signal } = new AbortController();
  const first = collect(session.read({ withLogs: false, signal }));
  await settled();
  const second = collect(session.read({ withLogs: false, signal }));
  const third = collect(session.read({ withLogs: true, signal }));
  await settled();
  output.push(chunk('three'));
  await settled();
  output.end();
  const texts = (await Promise.all([first, second, third])).map((c) => Buffer.concat(c.map((x) => x.data)).toString());
  assert.deepEqual(texts, ['one two three', 'three', 'one two three']);
});

test('a job with more output than is kept waits for its first client, which then gets all of it', async () => {
  const chunks = Array.from({ length: 40 }, (_, index) => chunk(String.fromCharCode(65 + index).repeat(60_000)));
  const { session, output, produced } = sessionOf(chunks);
  await settled();
  await settled();
  assert.ok(produced() < 40);
  output.end();
  const { signal } = new AbortController();
  const received = await collect(session.read({ withLogs: false, signal }));
  assert.equal(Buffer.concat(received.map((c) => c.data)).length, 40 * 60_000);
});

test('a client that left does not hold the job up', async () => {
  const { session, output, produced } = sessionOf([chunk('x')]);
  const leaving = new AbortController();
  const reading = session.read({ withLogs: false, signal: leaving.signal });
  await reading.next();
  for (let index = 0; index < 200; index += 1) output.push(chunk('y'));
  await settled();
  assert.ok(produced() < 200);
  leaving.abort();
  output.end();
  await session.ended;
  assert.equal(produced(), 201);
  await reading.return(undefined);
  assert.equal(session.readers, 0);
});
