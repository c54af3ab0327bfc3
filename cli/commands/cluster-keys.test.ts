import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import { createMemoryStore } from '@flynn/store/memory';
import { sealKeyOf } from '@flynn/store/sealing/envelope';
import { makeRing, readRing, retireOldKeys } from '@flynn/store/sealing/ring';
import { SealedStore } from '@flynn/store/sealing/sealed-store';
import { openDeskWithController } from '../testing.ts';

const text = 'the sealing key of a test';

test('`cluster keys` tells what secrets are sealed with, and `rotate` begins a change', async () => {
  const raw = createMemoryStore();
  const store = new SealedStore(raw.connect(), { sealingKey: async () => text, log: silentLogger() });
  await using env = await openDeskWithController({ store, hasWorker: false });
  const clear = await env.desk.run(['cluster', 'keys']);
  assert.equal(clear.code, 0, clear.stderr);
  assert.match(clear.stdout, /^secrets are in clear in the store: "npm run up"/);
  const refused = await env.desk.run(['cluster', 'keys', 'rotate']);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /nothing is sealed yet/);

  await makeRing(raw, { sealingKey: sealKeyOf(text), newId: randomUUID, now: new Date(0) });
  const made = await readRing(raw);
  assert.ok(made !== undefined && (await retireOldKeys(raw, made)));
  assert.match((await env.desk.run(['cluster', 'keys'])).stdout, /^all secrets in the store are sealed\n/);
  const rotated = await env.desk.run(['cluster', 'keys', 'rotate']);
  assert.equal(rotated.code, 0, rotated.stderr);
  assert.match(rotated.stdout, /^secrets are being rewritten since /);
  assert.equal(rotated.stdout.includes(`${made.ring.current} `), true);
  const { ring } = (await readRing(raw)) ?? assert.fail('there is no ring');
  assert.equal(
    rotated.stdout
      .split('\n')
      .find((line) => line.includes('new values'))
      ?.split(' ')[0],
    ring.current,
  );
  for (const { secret } of ring.keys) assert.equal(rotated.stdout.includes(secret), false);
});
