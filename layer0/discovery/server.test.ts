import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HttpClient } from '@flynn/kit/http-client';
import { startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { routes } from './api.ts';
import { createMemoryRegistry } from './memory-registry.ts';
import { discoveryHandlers } from './server.ts';

test('nobody claims over HTTP what host agents say: a group, a name among the platform’s parts, a place beside them', async () => {
  const log = silentLogger();
  const stop = new AbortController();
  await using registry = createMemoryRegistry({ log });
  const handlers = discoveryHandlers(registry, { signal: stop.signal });
  const server = await startServer({ handlers, log, host: '127.0.0.1', port: 0, name: 'discovery' });
  const http = new HttpClient({ baseUrl: server.url, name: 'discovery' });
  const claim = (service: string, attributes: Record<string, string> = {}) => {
    const body = { address: '100.100.0.9:5432', attributes, ttlSeconds: 10 };
    return http.call(routes.register, { params: { service, instance: 'forged' }, body });
  };
  try {
    await assert.rejects(claim('db', { 'flynn.group': 'shop' }), { code: 'denied' });
    await assert.rejects(claim('controller', { 'flynn.identity': 'controller' }), { code: 'denied' });
    assert.deepEqual([registry.instances('db'), registry.instances('controller')], [[], []]);
    const own = { service: 'controller', id: 'h1-a', address: '100.100.0.2:3000' };
    await registry.register({ ...own, attributes: { 'flynn.identity': 'controller' } });
    await assert.rejects(claim('controller'), { code: 'denied' });
    assert.deepEqual(
      registry.instances('controller').map(({ id }) => id),
      ['h1-a'],
    );
    await claim('db');
    assert.equal(registry.instances('db').length, 1);
  } finally {
    stop.abort();
    await http.close();
    await server.close();
  }
});
