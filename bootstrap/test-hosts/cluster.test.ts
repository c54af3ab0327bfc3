import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readOptions } from '../settings.ts';
import { settingsOf } from './cluster.ts';

test('settings of a cluster are those of one on this machine’s test hosts, but for what each host has for itself', () => {
  const given = { FLYNN_DOMAIN: 'apps.example.com', FLYNN_HTTP_PORT: '8080', FLYNN_NETWORK_BACKEND: 'vxlan' };
  assert.deepEqual(settingsOf(readOptions({ ...given, FLYNN_HOST_ID: 'h1', FLYNN_ADDRESS: '192.0.2.7' })), given);
});
