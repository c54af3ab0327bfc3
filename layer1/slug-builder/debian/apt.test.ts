import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseUri } from './apt.ts';

test('a line of apt tells a package, its version and its digest', () => {
  const sha256 = 'a'.repeat(64);
  assert.deepEqual(
    parseUri(
      `'http://m.example/x/gmp_6.3.0%2bdfsg-3_amd64.deb' libgmp-dev_2%3a6.3.0+dfsg-3_amd64.deb 12 SHA256:${sha256}`,
    ),
    [{ name: 'libgmp-dev', version: '2:6.3.0+dfsg-3', file: 'libgmp-dev_2%3a6.3.0+dfsg-3_amd64.deb', sha256 }],
  );
  assert.deepEqual(parseUri("'http://m.example/x.deb' x_1_all.deb 12 MD5Sum:00"), []);
  assert.deepEqual(parseUri('Reading package lists...'), []);
});
