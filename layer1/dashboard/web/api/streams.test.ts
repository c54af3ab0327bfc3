import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { encodeEvent, encodeFailure, heartbeat } from '@flynn/kit/sse';
import { FlynnError } from '@flynn/kit/errors';
import * as fc from 'fast-check';
import { readEvents, readLines } from './streams.ts';

function bodyOf(text: string, cuts: readonly number[] = []): ReadableStream<Uint8Array> {
  const bytes = new TextEncoder().encode(text);
  const at = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).toSorted((a, b) => a - b), bytes.length];
  return ReadableStream.from(at.slice(1).map((end, index) => bytes.slice(at[index], end)));
}

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  return Array.fromAsync(items);
}

describe('streams', () => {
  it('give what servers wrote, wherever it is cut', async () => {
    const events = [
      { id: '7', event: 'app', data: { name: 'küche' } },
      { event: 'current', data: null },
    ];
    const text = `${heartbeat}${events.map(encodeEvent).join(heartbeat)}`;
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat()), async (cuts) => {
        const read = await all(readEvents(bodyOf(text, cuts)));
        assert.deepEqual(read, [
          { id: '7', event: 'app', data: { name: 'küche' } },
          { id: undefined, event: 'current', data: null },
        ]);
      }),
      { numRuns: 30 },
    );
  });

  it('throw what a server says at their end', async () => {
    const body = bodyOf(encodeFailure(new FlynnError('unavailable', 'the controller stops')));
    await assert.rejects(all(readEvents(body)), { code: 'unavailable', message: 'the controller stops' });
  });

  it('of lines leave empty ones out, and give the last without its end', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat()), async (cuts) => {
        assert.deepEqual(await all(readLines(bodyOf('{"ä":1}\n\n\n{"b":2}\nrest', cuts))), [
          '{"ä":1}',
          '{"b":2}',
          'rest',
        ]);
      }),
      { numRuns: 30 },
    );
  });

  it('that fall silent are as good as broken', async () => {
    const silent = new ReadableStream<Uint8Array>();
    await assert.rejects(all(readLines(silent, 5)), { code: 'unavailable' });
  });

  it('are not silent for the time that who reads them takes', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const body = new ReadableStream<Uint8Array>({
      pull: (sender) => sender.enqueue(new TextEncoder().encode('x\n')),
    });
    const lines = readLines(body, 5);
    assert.equal((await lines.next()).value, 'x');
    t.mock.timers.tick(500);
    assert.equal((await lines.next()).value, 'x');
    await lines.return(undefined);
  });
});
