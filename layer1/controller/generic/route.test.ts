import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { keys } from '../keys/api.ts';
import { apps } from '../api.ts';
import { routing } from '../routes/api.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';
import { generic } from './api.ts';
import { callsTo, flynn, invalid, paths } from './testing.ts';

let world: TestController;
before(async () => {
  world = await startTestController();
});
after(async () => {
  await world[Symbol.asyncDispose]();
});

const { apply, get } = callsTo(() => world.client);

test('a route and a key are called by what they are', async () => {
  await world.client.call(apps.create, { body: { name: 'routed' } });
  const route = { owner: 'app/routed', spec: { domain: 'routed.example.com' } };
  const made = await apply('Route', route);
  assert.deepEqual([made.outcome, made.name], ['created', 'routed.example.com/']);
  assert.equal((await apply('Route', route)).outcome, 'unchanged');
  const moved = await apply('Route', { ...route, spec: { ...route.spec, service: 'routed-api' } });
  assert.deepEqual(moved.changes, [{ path: 'spec.service', before: 'routed-web', after: 'routed-api' }]);
  const settings = { sticky: true, limits: { bodyBytes: 9 }, https: { redirect: true, hstsSeconds: 60 } };
  const set = await apply('Route', { ...route, spec: { ...route.spec, http: settings } });
  assert.deepEqual(paths(set), [
    'spec.http.https.hstsSeconds',
    'spec.http.https.redirect',
    'spec.http.limits.bodyBytes',
    'spec.http.sticky',
  ]);
  assert.deepEqual((await get('Route', 'routed.example.com/')).spec['http'], settings);
  assert.equal((await apply('Route', route)).outcome, 'unchanged');
  const taken = { ...route, spec: { ...route.spec, http: { https: { redirect: null } } } };
  await assert.rejects(apply('Route', taken), invalid(/spec\.http\.https\.hstsSeconds: it tells browsers/));
  await assert.rejects(
    apply('Route', { ...route, spec: { ...route.spec, tcp: { idleMs: 5 } } }),
    invalid(/spec\.tcp: these settings are for tcp routes/),
  );
  const where = { params: { ...flynn('Route'), name: 'routed.example.com/' } };
  const before = await get('Route', where.params.name);
  const patch = (body: object) => world.client.call(generic.patch, { ...where, body });
  const patched = await patch({ spec: { http: { sticky: null, limits: { connections: 4 } } } });
  assert.deepEqual(patched.object?.spec['http'], {
    limits: { bodyBytes: 9, connections: 4 },
    https: { redirect: true, hstsSeconds: 60 },
  });
  const { revision } = before.metadata;
  await assert.rejects(patch({ spec: { http: { sticky: true } }, metadata: { revision } }), (error) =>
    hasCode(error, 'conflict'),
  );
  await assert.rejects(apply('Route', { spec: route.spec }), invalid(/owner: it belongs to an app/));
  await assert.rejects(
    apply('Route', { owner: 'app/routed', spec: { domain: '-' } }),
    invalid(/spec\.domain: "-" is not/),
  );
  await world.client.call(generic.remove, { params: { ...flynn('Route'), name: 'routed.example.com/' } });
  assert.equal((await world.client.call(routing.list, { params: { app: 'routed' } })).length, 1);

  const publicKey = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1XlU5gFpJdLYlvBPSJQ7Jn8WQ4ZC3aSQ3nXTjoI7Gp ada@example.com';
  const key = await apply('Key', { spec: { publicKey } });
  assert.equal(key.outcome, 'created');
  assert.match(key.name, /^SHA256:/);
  assert.equal((await apply('Key', { spec: { publicKey } })).outcome, 'unchanged');
  assert.equal((await get('Key', key.name)).spec['publicKey'], publicKey);
  const same = await world.client.call(keys.get, { params: { fingerprint: key.name } });
  assert.equal(same.comment, 'ada@example.com');
  await assert.rejects(apply('Key', { spec: { publicKey: 'nonsense' } }), invalid(/spec\.publicKey: .*a key starts/));
});
