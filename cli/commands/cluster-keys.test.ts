import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { testSealing } from '@flynn/controller/sealing/testing';
import { Desk, openDeskWithController } from '../testing.ts';

test('`cluster keys` tells what secrets are sealed with, and `rotate` begins a change', async () => {
  const sealing = testSealing();
  await using env = await openDeskWithController({ store: sealing.store, hasWorker: false });
  const clear = await env.desk.run(['cluster', 'keys']);
  assert.equal(clear.code, 0, clear.stderr);
  assert.match(clear.stdout, /^secrets are in clear in the store: flynn-host bootstrap \(npm run up\)/);
  const refused = await env.desk.run(['cluster', 'keys', 'rotate']);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /nothing is sealed yet/);

  await sealing.begin();
  await sealing.settle();
  const made = (await sealing.ring())?.current ?? '';
  assert.match((await env.desk.run(['cluster', 'keys'])).stdout, /^all secrets in the store are sealed\n/);
  const rotated = await env.desk.run(['cluster', 'keys', 'rotate']);
  assert.equal(rotated.code, 0, rotated.stderr);
  assert.match(rotated.stdout, /^secrets are being rewritten since /);
  assert.equal(rotated.stdout.includes(`${made} `), true);
  const ring = (await sealing.ring()) ?? assert.fail('there is no ring');
  assert.equal(
    rotated.stdout
      .split('\n')
      .find((line) => line.includes('new values'))
      ?.split(' ')[0],
    ring.current,
  );
  for (const { secret } of ring.keys) assert.equal(rotated.stdout.includes(secret), false);
});

test(
  '`cluster keys rotate --wait` waits for a change that is under way, then for its own',
  { timeout: 60_000 },
  async () => {
    const sealing = testSealing();
    await using env = await openDeskWithController({ store: sealing.store, hasWorker: false });
    await sealing.begin();
    const first = (await sealing.ring())?.current;
    const refused = await env.desk.run(['cluster', 'keys', 'rotate']);
    assert.match(refused.stderr, /is not through, .*"flynn cluster keys rotate --wait" waits for it/);
    const rotating = env.desk.run(['cluster', 'keys', 'rotate', '--wait']);
    await sealing.settle();
    await waitFor(async () => (await sealing.ring())?.current !== first, { what: 'a new key', deadlineMs: 30_000 });
    await sealing.settle();
    const { code, stdout, stderr } = await rotating;
    assert.equal(code, 0, stderr);
    assert.match(stdout, /^all secrets in the store are sealed\n/);
  },
);

test('who may not change keys is told so at once by `rotate --wait` too', { timeout: 60_000 }, async () => {
  const sealing = testSealing();
  await using env = await openDeskWithController({ store: sealing.store, hasWorker: false });
  await sealing.begin();
  await using mallory = await Desk.open();
  const { stdout: added } = await env.desk.run(['user', 'add', 'mallory']);
  await mallory.run(/flynn (cluster add \S+ \S+ \S+)/.exec(added)?.[1]?.split(' ') ?? []);
  const { code, stderr } = await mallory.run(['cluster', 'keys', 'rotate', '--wait']);
  assert.deepEqual([code, /admin/.test(stderr)], [1, true], stderr);
});
