import assert from 'node:assert/strict';
import { test } from 'node:test';
import { goneText } from './take-down.ts';

test('a cluster is said to be gone where nobody goes on with it', () => {
  assert.match(goneText({ name: 'flynn', hasPlatform: true }, false), /The cluster flynn is gone/);
  assert.match(goneText({ name: 'flynn' }, false), /The cluster flynn is gone/);
  // The host that made it may not have heard that another keeps the platform, or have been forced to go.
  assert.match(goneText({ name: 'flynn', hasPlatform: true }, true), /no host of the cluster flynn any more/);
  assert.match(goneText({ name: 'flynn', hasPlatform: false }, false), /no host of the cluster flynn any more/);
});
