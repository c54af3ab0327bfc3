import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { tokens } from './api.ts';
import { startTestController } from '../testing.ts';
import { RateLimit } from './rate-limit.ts';
import { Principal, rootPrincipal, servicePrincipal } from './principal.ts';
import { noLimits } from './roles.ts';

function user(id: string): Principal {
  const standing = { cluster: 'viewer' as const, apps: new Map() };
  return new Principal({ kind: 'user', name: id, userId: id, standing, limits: noLimits });
}

test('bursts are fine, more than the rate is not, and a rest is enough', () => {
  let nowMs = 0;
  const limit = new RateLimit({ burst: 5, perSecond: 10 }, () => nowMs);
  const taken = (principal: Principal): number => {
    let count = 0;
    try {
      for (; count < 1_000; count += 1) limit.take(principal);
    } catch (error) {
      assert.ok(hasCode(error, 'exhausted') && typeof error.detail['retryAfterMs'] === 'number');
    }
    return count;
  };
  assert.equal(taken(user('ann')), 5);
  assert.equal(taken(user('bob')), 5, 'everybody has their own');
  nowMs += 200;
  assert.equal(taken(user('ann')), 2);
  nowMs += 60_000;
  assert.equal(taken(user('ann')), 5);
  nowMs -= 10_000;
  assert.equal(taken(user('ann')), 0, 'a clock that steps back gives nothing');
  assert.equal(taken(rootPrincipal()), 5);
  assert.equal(taken(servicePrincipal('router')), 1_000, "the platform's own parts are not counted");
});

test('who asks too often is told when to come back', async () => {
  await using world = await startTestController({ hosts: 0, hasWorker: false, rate: { burst: 3, perSecond: 1 } });
  const { token } = await world.client.call(tokens.create, { body: { name: 'x' } });
  const answers = await Promise.all(
    // Each second that they take one more of them is let in.
    Array.from({ length: 30 }, () => fetch(`${world.url}/whoami`, { headers: { authorization: `Bearer ${token}` } })),
  );
  const refused = answers.filter(({ status }) => status === 429);
  assert.ok(refused.length >= 2, String(refused.length));
  assert.equal(refused[0]?.headers.get('retry-after'), '1');
  assert.match(
    await (refused[0]?.text() ?? ''),
    /"code":"exhausted","message":".*asks too often: at most 1 requests a second/,
  );
});
