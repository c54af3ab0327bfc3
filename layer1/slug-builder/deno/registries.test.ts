import assert from 'node:assert/strict';
import { test } from 'node:test';
import { registriesAtRunTime, registriesOf } from './registries.ts';

test('Deno is told of a registry in whichever letters npm was', () => {
  assert.deepEqual(registriesOf({ npm_config_registry: 'https://npm.example.com/', PATH: '/bin' }), {
    NPM_CONFIG_REGISTRY: 'https://npm.example.com/',
  });
  assert.deepEqual(
    registriesOf({ NPM_CONFIG_REGISTRY: 'https://a.example.com', npm_config_registry: 'https://b.example.com' }),
    {
      NPM_CONFIG_REGISTRY: 'https://a.example.com',
    },
  );
  assert.deepEqual(registriesOf({ NPM_CONFIG_REGISTRY: '' }), {});
});

test('a slug knows the registries by which its packages are kept, without logins', () => {
  const env = {
    NPM_CONFIG_REGISTRY: 'https://name:secret@npm.example.com:8443/npm/',
    JSR_URL: 'https://jsr.example.com',
  };
  assert.deepEqual(registriesAtRunTime(env), {
    NPM_CONFIG_REGISTRY: 'https://npm.example.com:8443/npm/',
    JSR_URL: 'https://jsr.example.com/',
  });
  for (const address of ['none', 'https://npm.example.com/$(reboot)']) {
    assert.deepEqual(registriesAtRunTime({ NPM_CONFIG_REGISTRY: address }), {}, address);
  }
});
