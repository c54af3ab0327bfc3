import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mirrorsOf } from './builder-env.ts';

test('mirrors of packages that this machine names reach builds, and nothing else does', () => {
  const mirrors = {
    PIP_INDEX_URL: 'https://pip.example/simple',
    GOPROXY: 'https://go.example',
    BUNDLE_MIRROR__ALL: 'https://gems.example',
    CARGO_MIRROR_URL: 'sparse+https://crates.example/',
    MAVEN_MIRROR_URL: 'https://maven.example',
  };
  assert.deepEqual(
    mirrorsOf({ ...mirrors, PIP_CACHE_DIR: '/root/.cache', GOPATH: '/root/go', GOSUMDB: '', PATH: '/bin' }),
    mirrors,
  );
});
