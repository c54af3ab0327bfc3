import assert from 'node:assert/strict';
import { test } from 'node:test';
import { engineCall } from './errors.ts';

const never = () => new Promise<never>(() => undefined);

test('a call that the engine never answers ends at its deadline, whatever the library makes of signals', async () => {
  // The deadline's timer alone would not keep the test running.
  const alive = setTimeout(() => undefined, 5_000);
  await assert.rejects(engineCall('attaching to c', never, { deadlineMs: 20 }), {
    code: 'timeout',
    message: 'attaching to c: the container engine took too long to answer',
  });
  const leaving = new AbortController();
  const call = engineCall('attaching to c', never, { signal: leaving.signal });
  leaving.abort();
  await assert.rejects(call, { code: 'cancelled' });
  clearTimeout(alive);
});
