import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { test } from 'node:test';
import { newSigningSecret, signatureHeaders } from '../../notifications/signature.ts';
import { Proof, hasProof } from './proof.ts';

// What GitHub publishes for whoever tests a receiver.
const secret = "It's a Secret to Everybody";
const body = 'Hello, World!';
const hex = '757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17';

function isGood(headers: IncomingHttpHeaders, of: { secret?: string; parts?: readonly string[] } = {}): boolean {
  const proof = new Proof(headers, of.secret ?? secret);
  for (const part of of.parts ?? [body]) proof.update(Buffer.from(part));
  return proof.isGood();
}

test('a body that is signed as the services do it is taken, however it arrives in parts', () => {
  const signed: IncomingHttpHeaders[] = [
    { 'x-hub-signature-256': `sha256=${hex}` },
    // Bitbucket's; GitHub and Gitea have SHA-1 under this name.
    { 'x-hub-signature': `sha256=${hex}` },
    { 'x-hub-signature': 'sha1=01dc10d0c83e72ed246219cdd91669667fe2ca59', 'x-hub-signature-256': `sha256=${hex}` },
    { 'x-gitea-signature': hex, 'x-gogs-signature': hex, 'x-hub-signature-256': `sha256=${hex}` },
    { 'x-forgejo-signature': hex },
    { 'x-gitea-signature': hex.toUpperCase() },
  ];
  for (const headers of signed) {
    assert.ok(hasProof(headers));
    assert.ok(isGood(headers), JSON.stringify(headers));
    assert.ok(isGood(headers, { parts: ['Hel', '', 'lo, World', '!'] }));
    assert.ok(!isGood(headers, { parts: [body, ' '] }), 'something was added');
    assert.ok(!isGood(headers, { parts: [] }));
    assert.ok(!isGood(headers, { secret: `${secret}.` }));
  }
  // Atlassian publishes this one.
  const atlassian = 'sha256=a4771c39fbe90f317c7824e83ddef3caae9cb3d976c214ace1f2937e133263c9';
  assert.ok(isGood({ 'x-hub-signature': atlassian }, { parts: ['Hello World!'] }));
});

test('GitLab sends the secret itself, or signs with what it is of as Standard Webhooks has it', () => {
  assert.ok(isGood({ 'x-gitlab-token': secret }));
  for (const wrong of [secret.slice(1), `${secret}x`, secret.toLowerCase()]) {
    assert.ok(!isGood({ 'x-gitlab-token': wrong }), wrong);
  }
  // The example that the reference libraries verify.
  const standard = {
    'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    'webhook-timestamp': '1614265330',
    'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  };
  const of = { secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', parts: ['{"test": ', '2432232314}'] };
  assert.ok(isGood(standard, of));
  assert.ok(!isGood({ ...standard, 'webhook-id': 'msg_other' }, of));
  assert.ok(!isGood({ ...standard, 'webhook-timestamp': '1614265331' }, of));
  assert.ok(!isGood(standard, { ...of, secret: newSigningSecret() }));
  const former = signatureHeaders(newSigningSecret(), { id: 'x', body: 'x', now: 0 })['webhook-signature'] ?? '';
  const both = `${former} ${standard['webhook-signature']}`;
  assert.ok(isGood({ ...standard, 'webhook-signature': both }, of), 'one of several');
  assert.ok(isGood({ ...standard, 'x-gitlab-token': 'another' }, of), 'either of the two will do');
});

test('what proves nothing is told from what may, before anything is read, and is never good', () => {
  const nothing: IncomingHttpHeaders[] = [
    {},
    { 'x-gitlab-token': '' },
    { 'x-hub-signature': 'sha1=01dc10d0c83e72ed246219cdd91669667fe2ca59' },
    { 'x-hub-signature-256': hex },
    { 'x-hub-signature-256': `sha256=${hex.slice(1)}` },
    { 'x-hub-signature-256': `sha512=${hex}` },
    // Gitea without a secret.
    { 'x-gitea-signature': '', 'x-hub-signature-256': 'sha256=' },
    { 'webhook-id': 'x', 'webhook-timestamp': '0', 'webhook-signature': 'v1a,x v1,' },
    { authorization: `Bearer ${secret}` },
  ];
  for (const headers of nothing) {
    assert.ok(!hasProof(headers), JSON.stringify(headers));
    assert.ok(!isGood(headers));
  }
  // Signed with nothing, as by who has no secret.
  const empty = createHmac('sha256', '').update(body).digest('hex');
  assert.ok(!isGood({ 'x-gitea-signature': empty }));
});
