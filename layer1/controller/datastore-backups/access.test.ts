/** Who sees backups of a datastore, and who may have one made, read, put back and deleted. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { HttpClient } from '@flynn/kit/http-client';
import { asFlynnError } from '@flynn/kit/errors';
import { grants, tokens, users } from '../access/api.ts';
import { audit } from '../audit/api.ts';
import { apps } from '../api.ts';
import { createControllerClient } from '../client.ts';
import { providers } from '../providers/api.ts';
import { resourceType } from '../providers/types.ts';
import { appType } from '../resources.ts';
import { datastoreBackups as routes } from './api.ts';
import { startDatastoreWorld } from './datastore-fixture.ts';
import type { DatastoreWorld } from './datastore-fixture.ts';

/** Of a user with that role on shop, and no other. */
async function clientOf({ world }: DatastoreWorld, name: string, role?: 'viewer' | 'developer'): Promise<HttpClient> {
  await world.client.call(users.create, { body: { name } });
  if (role !== undefined) {
    await world.client.call(grants.put, { params: { app: 'shop', kind: 'user', name }, body: { role } });
  }
  const { token } = await world.client.call(tokens.create, { body: { name: `of-${name}`, user: name } });
  return createControllerClient({ baseUrl: world.url, key: token });
}

async function outcome(asked: Promise<unknown>): Promise<string> {
  return asked.then(
    () => 'done',
    (error: unknown) => asFlynnError(error).code,
  );
}

test('who sees the app sees when and how it was backed up; all else is for developers of all apps that have it', async () => {
  await using at = await startDatastoreWorld();
  const { world, params } = at;
  await at.step(Date.now());
  await using nobody = await clientOf(at, 'nobody');
  await using viewer = await clientOf(at, 'viewer', 'viewer');
  await using developer = await clientOf(at, 'developer', 'developer');
  const { id: backup } = await developer.call(routes.run, { params });
  await at.step(Date.now());
  const all = (client: HttpClient): Promise<string[]> =>
    Promise.all([
      outcome(client.call(routes.list, { params })),
      outcome(client.call(routes.schedule, { params, body: { schedule: '0 3 * * *' } })),
      outcome(client.call(routes.unschedule, { params })),
      outcome(client.stream(routes.download, { params: { ...params, backup } }).then((body) => body.destroy())),
      outcome(client.call(routes.restore, { params, body: { backup: 'none' } })),
      outcome(client.call(routes.cancelRestore, { params })),
      outcome(client.call(routes.dismiss, { params })),
      outcome(client.call(routes.remove, { params: { ...params, backup: 'none' } })),
      outcome(client.call(routes.cancel, { params: { ...params, backup: 'none' } })),
    ]);
  assert.deepEqual(
    await all(nobody),
    Array.from({ length: 9 }, () => 'not_found'),
  );
  assert.deepEqual(await all(viewer), ['done', ...Array.from({ length: 8 }, () => 'denied')]);
  assert.equal(await outcome(viewer.call(routes.run, { params })), 'denied');
  const own = ['done', 'done', 'done', 'done', 'not_found', 'conflict', 'done', 'not_found', 'not_found'];
  assert.deepEqual(await all(developer), own);

  const entries = await world.client.call(audit.list, {});
  const told = entries.filter(({ actor }) => actor.name === 'developer').map(({ action }) => action);
  assert.ok(told.includes('POST /resources/:resource/backups/:backup/download'));

  // Another app that has it, and is not theirs.
  await world.client.call(apps.create, { body: { name: 'blog' } });
  const blog = await world.deps.resources.lookup(appType, 'blog');
  await world.deps.resources.change(resourceType, at.resourceId, ({ spec, status }) => ({
    spec: { ...spec, apps: [...spec.apps, { appId: blog.id, isReplacing: false }] },
    status: { ...status, links: { ...status.links, [blog.id]: { state: 'added' as const } } },
  }));
  assert.equal(await outcome(developer.call(routes.restore, { params, body: { backup } })), 'denied');
  assert.equal(await outcome(developer.call(routes.list, { params })), 'done');
});

test('what a provider elsewhere gave is backed up there', async () => {
  await using at = await startDatastoreWorld();
  const { world } = at;
  const url = 'http://mysql.flynn/resources';
  const { id: providerId } = await world.client.call(providers.create, { body: { name: 'mysql', url } });
  const { id } = await world.deps.resources.create(resourceType, {
    spec: { providerId, config: {}, apps: [] },
    status: { env: {}, isAsked: true, externalId: 'db/17', links: {}, refused: {} },
  });
  const refused = world.client.call(routes.list, { params: { resource: id } });
  await assert.rejects(refused, /its provider backs it up/);
});
