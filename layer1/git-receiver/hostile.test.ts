/** Whatever a client says: it is one of git's two commands on one app, or is refused in words. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { parseCommand } from './command.ts';
import { parsePushOptions } from './push-options.ts';
import { decide, parseUpdates } from './updates.ts';

const seed = 20_261_122;
const soupOf = (...pieces: string[]) =>
  fc.array(fc.constantFrom(...pieces), { maxLength: 20 }).map((each) => each.join(''));
const binary = fc.string({ unit: 'binary', maxLength: 200 });
const words = ['git', '-', ' ', 'receive-pack', 'upload-pack', "'", '/', '..', '.git', 'app', ';', '\n', '\0', '$(x)'];
const hashes = ['0'.repeat(40), 'a'.repeat(40), 'b'.repeat(64), 'c'];
const lines = [...hashes, ' ', '\n', '\r', '\0', 'refs/heads/main', 'refs/heads/x', 'refs/tags/v', 'refs/', '..', 'ü'];
const options = ['expires', '=', '10m', '-1s', '9'.repeat(30), 'ms', ' ', '\n', 'expires=1h', '__proto__'];

test('any command names a service and an app, and no more of the path, or is refused', () => {
  fc.assert(
    fc.property(fc.oneof(soupOf(...words), binary), (given) => {
      const parsed = parseCommand(given);
      if ('problem' in parsed) return assert.ok(parsed.problem.length > 20 && parsed.problem.length < 500);
      assert.match(parsed.app, /^[a-z][a-z0-9-]{0,29}$/);
    }),
    { seed, numRuns: 2_000 },
  );
});

test('of any updates main or master is deployed, at what is a commit, or the push is refused', () => {
  fc.assert(
    fc.property(fc.oneof(soupOf(...lines), binary), (given) => {
      const decision = decide(parseUpdates(given), { name: 'shop', meta: {} });
      if ('refusal' in decision) return assert.ok(decision.refusal.length > 0);
      assert.match(decision.deploy.commit, /^(?!0+$)[0-9a-f]{40,64}$/);
      assert.match(decision.deploy.branch, /^(?:main|master)$/);
    }),
    { seed, numRuns: 2_000 },
  );
});

test('any options of a push are a time to wait, or are refused', () => {
  fc.assert(
    fc.property(fc.array(fc.oneof(soupOf(...options), binary), { maxLength: 4 }), (given) => {
      const asked = parsePushOptions(given);
      if ('refusal' in asked) return assert.ok(asked.refusal.every((line) => line.length > 10 && line.length < 500));
      const { expiresInMs = 1_000 } = asked;
      assert.ok(Number.isSafeInteger(expiresInMs) && expiresInMs >= 1_000);
    }),
    { seed, numRuns: 2_000 },
  );
});
