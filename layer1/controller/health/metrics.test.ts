import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import { metricsRoute } from '@flynn/kit/metrics-server';
import { metricsToken } from '@flynn/kit/metrics-token';
import { platform } from '../api-platform.ts';
import { startTestController } from '../testing.ts';
import { health } from './api.ts';

test('the controller tells the cluster in figures, to who may look at it and to monitoring', async () => {
  await using world = await startTestController({ hosts: 2 });
  await world.deployApp('shop', { web: { ports: [{ port: 8080 }] } });
  await world.client.call(health.get, { query: { patienceMs: 10_000 } });
  const token = metricsToken(world.key);
  await using monitoring = new HttpClient({ baseUrl: world.url, key: token, name: 'the controller' });
  const chunks: Buffer[] = [];
  for await (const chunk of await monitoring.stream(metricsRoute, {})) chunks.push(chunk as Buffer);
  const text = Buffer.concat(chunks).toString();
  assert.match(text, /^flynn_cluster_hosts 2$/m);
  assert.match(text, /^flynn_cluster_deployments\{state="complete"\} 1$/m);
  assert.match(text, /^flynn_cluster_findings\{severity="\w+",check="\w+"\} \d+$/m);
  assert.match(text, /^flynn_cluster_component_healthy\{component="host agent"\} 1$/m);
  await assert.rejects(monitoring.call(platform.cluster, {}), (error) => hasCode(error, 'unauthenticated'));
});
