import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HttpClient } from '@flynn/kit/http-client';
import { startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { routes } from './api.ts';
import { createMemoryRegistry } from './memory-registry.ts';
import { discoveryHandlers } from './server.ts';

test('nobody claims a group over HTTP: who may reach an instance follows from it', async () => {
  const log = silentLogger();
  const stop = new AbortController();
  await using registry = createMemoryRegistry({ log });
  const handlers = discoveryHandlers(registry, { signal: stop.signal });
  const server = await startServer({ handlers, log, host: '127.0.0.1', port: 0, name: 'discovery' });
  const http = new HttpClient({ baseUrl: server.url, name: 'discovery' });
  const params = { service: 'db', instance: 'forged' };
  const body = { address: '100.100.0.9:5432', attributes: { 'flynn.group': 'shop' }, ttlSeconds: 10 };
  try {
    await assert.rejects(http.call(routes.register, { params, body }), { code: 'denied' });
    assert.deepEqual(registry.instances('db'), []);
  } finally {
    stop.abort();
    await http.close();
    await server.close();
  }
});
