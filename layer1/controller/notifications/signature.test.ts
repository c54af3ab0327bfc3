import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newSigningSecret, signatureHeaders, signingSecretSchema } from './signature.ts';

test('a message is signed as the specification of Standard Webhooks has it', () => {
  // The example that the reference libraries verify.
  const headers = signatureHeaders('whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', {
    id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    body: '{"test": 2432232314}',
    now: 1_614_265_330_999,
  });
  assert.deepEqual(headers, {
    'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    'webhook-timestamp': '1614265330',
    'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  });
});

test('secrets are made and known by their form', () => {
  assert.ok(signingSecretSchema.safeParse(newSigningSecret()).success);
  assert.notEqual(newSigningSecret(), newSigningSecret());
  for (const wrong of ['whsec_short', 'MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', `whsec_${'!'.repeat(44)}`]) {
    assert.ok(!signingSecretSchema.safeParse(wrong).success, wrong);
  }
});
