/** A router of several processes says of itself what all of them say, or nothing. */
import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { freePort } from '@flynn/kit/testing-ports';
import { startCarrier } from './voice.ts';

const fixture = new URL('./fixture.ts', import.meta.url).pathname;

test('a sum of what only some processes counted is not told: it would be less than the one before', async (t) => {
  const port = await freePort();
  const carrier = await startCarrier({
    count: 2,
    range: { least: 2, most: 2 },
    // These know nothing of figures.
    spawn: () => fork(fixture, [String(port)]),
    startOwn: async () => assert.fail('of two there is none that is the own process'),
    log: silentLogger(),
  });
  t.after(() => carrier.stop({ drainMs: 30_000 }));
  const isUntold = (error: unknown) => hasCode(error, 'unavailable') && error.message.startsWith('2 of its processes');
  await assert.rejects(carrier.allStats('k3v9x2m1q8aa'), isUntold);
  await assert.rejects(carrier.routeStats('r'), isUntold);
  await assert.rejects(carrier.appCounts([]), isUntold);
});
