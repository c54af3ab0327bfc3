import assert from 'node:assert/strict';
import { Socket } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { untilConnected } from './backend.ts';
import { Deadlines, tickMs } from './http1/deadlines.ts';

test('a backend is unreachable when it did not answer for so long as this process listened, a standstill left out', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  let elapsedMs = 0;
  const look = (ms: number) => {
    elapsedMs += ms;
    t.mock.timers.tick(tickMs);
  };
  const socket = new Socket();
  const told: unknown[] = [];
  const deadlines = new Deadlines(() => elapsedMs);
  untilConnected(socket, { address: '192.0.2.1:80' }, { timeoutMs: 1_000, deadlines }).catch((error: unknown) =>
    told.push(error),
  );
  look(3_600_000);
  look(tickMs);
  await setImmediate();
  assert.deepEqual([told, socket.destroyed], [[], false]);
  for (let left = 1_000; left > 0; left -= tickMs) look(tickMs);
  await setImmediate();
  assert.equal(told.length, 1);
  assert.ok(hasCode(told[0], 'unavailable'));
  assert.ok(socket.destroyed);
});
