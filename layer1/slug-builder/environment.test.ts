import assert from 'node:assert/strict';
import { test } from 'node:test';
import { baseEnv, buildEnv, givenEnv } from './environment.ts';

const facts = { home: '/app', commit: 'abc' };

test('programs of a build get what reaches registries, and nothing of the cluster’s', () => {
  const env = baseEnv(
    {
      PATH: '/usr/bin',
      npm_config_registry: 'https://npm.example.com/',
      HTTPS_PROXY: 'http://proxy.example.com',
      CARGO_MIRROR_URL: 'sparse+https://crates.example.com/',
      NODE_EXTRA_CA_CERTS: '/ca.crt',
      FLYNN_KEY: 'secret',
      FLYNN_APP_ENV: '{}',
      SOMETHING: 'else',
    },
    facts,
  );
  assert.deepEqual(env, {
    LANG: 'C.UTF-8',
    PATH: '/usr/bin',
    npm_config_registry: 'https://npm.example.com/',
    HTTPS_PROXY: 'http://proxy.example.com',
    CARGO_MIRROR_URL: 'sparse+https://crates.example.com/',
    NODE_EXTRA_CA_CERTS: '/ca.crt',
    HOME: '/app',
    STACK: 'flynn-1',
    SOURCE_VERSION: 'abc',
  });
});

test('what is given to all builds reaches them whatever it is called, in each step, but does not change the tools', () => {
  const once = baseEnv({ PATH: '/usr/bin', EXTRA: '1', OTHER: '2', FLYNN_BUILD_ENV: 'EXTRA,PATH,GONE' }, facts);
  assert.deepEqual([once['EXTRA'], once['OTHER'], once['PATH'], once['GONE']], ['1', undefined, '/usr/bin', undefined]);
  assert.equal(baseEnv(once, facts)['EXTRA'], '1');
  assert.deepEqual(givenEnv(once), { EXTRA: '1' });
  assert.deepEqual(givenEnv({ EXTRA: '1' }), {});
});

test('the app’s variables reach its build, but do not change the tools', () => {
  const env = buildEnv({
    baseEnv: { PATH: '/usr/bin', HOME: '/app' },
    appEnv: { PATH: '/evil', LD_PRELOAD: 'x.so', PORT: '1', API_URL: 'https://x', NODE_ENV: 'staging' },
  });
  assert.deepEqual(env, { PATH: '/usr/bin', HOME: '/app', API_URL: 'https://x', NODE_ENV: 'staging' });
});
