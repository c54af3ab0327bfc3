import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { PassThrough, Readable } from 'node:stream';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { readHook } from './body.ts';
import { Proof } from './proof.ts';

const secret = 'x';
const limits = { maxBytes: 3 * 1024 ** 2, keptBytes: 64 * 1024, deadlineMs: 60_000, silentMs: 60_000 };

function proofOf(body: Buffer): Proof {
  return new Proof({ 'x-gitea-signature': createHmac('sha256', secret).update(body).digest('hex') }, secret);
}

function partsOf(body: Buffer): Readable {
  const parts: Buffer[] = [];
  for (let at = 0; at < body.length; at += 10_000) parts.push(body.subarray(at, at + 10_000));
  return Readable.from(parts);
}

test('a body is read as it is proven; of a long one only the proof is', async () => {
  const short = Buffer.from(`{"ref":"${'é'.repeat(20_000)}"}`);
  const proof = proofOf(short);
  assert.equal(await readHook(partsOf(short), proof, limits), short.toString());
  assert.ok(proof.isGood());
  const long = Buffer.alloc(2 * 1024 ** 2, 'a');
  const ofLong = proofOf(long);
  assert.equal(await readHook(partsOf(long), ofLong, limits), undefined);
  assert.ok(ofLong.isGood());
});

test('what is longer than hooks are is refused before it ends, and so is what does not arrive', async () => {
  const body = Buffer.alloc(limits.maxBytes + 1);
  const endless = new PassThrough();
  endless.write(body);
  await assert.rejects(readHook(endless, proofOf(body), limits), (error) => hasCode(error, 'invalid'));
  assert.ok(endless.destroyed);
  for (const short of [{ deadlineMs: 5 }, { silentMs: 5 }]) {
    const silent = new PassThrough();
    silent.write('{');
    await assert.rejects(readHook(silent, proofOf(body), { ...limits, ...short }), (error) =>
      hasCode(error, 'timeout'),
    );
    assert.ok(silent.destroyed);
  }
});
