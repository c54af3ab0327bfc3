import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from './errors.ts';
import { Stall } from './stall.ts';

const quietMs = 600_000;

test('what gets on may take as long as it does; what is handed over has its quiet time and a second for each MiB', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  using stall = new Stall({ what: 'the copy', quietMs });
  const tick = (ms: number) => t.mock.timers.tick(ms);
  const chunk = Buffer.alloc(1024 ** 2);
  const source = async function* (): AsyncGenerator<Uint8Array> {
    for (let count = 0; count < 100; count += 1) {
      tick(quietMs - 1);
      yield chunk;
    }
  };
  for await (const _ of stall.watched(source())) assert.ok(!stall.signal.aborted);
  tick(quietMs + 99_999);
  assert.ok(!stall.signal.aborted);
  tick(1);
  assert.ok(hasCode(stall.signal.reason, 'timeout'));
  assert.match(stall.signal.reason.message, /^the copy did not get on for 700 s$/);
});

test('what stands still ends, as does what is ended by its caller; afterwards nothing does', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const caller = new AbortController();
  using still = new Stall({ what: 'the copy', quietMs });
  using ended = new Stall({ what: 'the copy', quietMs, signal: caller.signal });
  const over = new Stall({ what: 'the copy', quietMs });
  over[Symbol.dispose]();
  over.progressed();
  caller.abort();
  assert.deepEqual(
    [still, ended, over].map(({ signal }) => signal.aborted),
    [false, true, false],
  );
  t.mock.timers.tick(quietMs);
  assert.deepEqual(
    [still, over].map(({ signal }) => signal.aborted),
    [true, false],
  );
});
