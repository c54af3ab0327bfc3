/** Who sees the history of a datastore, who sets it, and into whose datastore it may go. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { asFlynnError } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import { grants, tokens, users } from '../access/api.ts';
import { createControllerClient } from '../client.ts';
import { datastoreBackups } from '../datastore-backups/api.ts';
import { addDatastore, startDatastoreWorld } from '../datastore-backups/datastore-fixture.ts';
import type { DatastoreWorld } from '../datastore-backups/datastore-fixture.ts';
import { resources } from '../providers/api.ts';
import { datastoreHistories as routes } from './api.ts';

type Roles = Readonly<Record<string, 'viewer' | 'developer'>>;

async function clientOf({ world }: DatastoreWorld, name: string, roles: Roles): Promise<HttpClient> {
  await world.client.call(users.create, { body: { name } });
  for (const [app, role] of Object.entries(roles)) {
    await world.client.call(grants.put, { params: { app, kind: 'user', name }, body: { role } });
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

test('who sees the app sees it, developers of all its apps set it; it goes into nothing of those who are not', async () => {
  await using at = await startDatastoreWorld();
  const { world, params } = at;
  await at.step(Date.now());
  await world.deployApp('other', { web: {} });
  const other = await addDatastore(world, 'other');
  await using nobody = await clientOf(at, 'nobody', { other: 'developer' });
  await using viewer = await clientOf(at, 'viewer', { shop: 'viewer', other: 'developer' });
  await using developer = await clientOf(at, 'developer', { shop: 'developer', other: 'viewer' });
  await using both = await clientOf(at, 'both', { shop: 'developer', other: 'developer' });
  const moment = new Date().toISOString();
  const all = (client: HttpClient): Promise<string[]> =>
    Promise.all([
      outcome(client.call(routes.get, { params })),
      outcome(client.call(routes.set, { params, body: { days: 7 } })),
      outcome(client.call(routes.collect, { params })),
      outcome(
        client.call(datastoreBackups.restore, {
          params: { resource: other.resourceId },
          body: { at: moment, from: at.resourceId },
        }),
      ),
      outcome(
        client.call(resources.create, {
          params: { provider: 'postgres' },
          body: { apps: ['other'], config: { from: 'shop-postgres', at: moment } },
        }),
      ),
    ]);
  assert.deepEqual(
    await all(nobody),
    Array.from({ length: 5 }, () => 'not_found'),
  );
  assert.deepEqual(await all(viewer), ['done', 'denied', 'denied', 'denied', 'denied']);
  assert.deepEqual(await all(developer), ['done', 'done', 'done', 'denied', 'denied']);
  // Nothing is kept yet.
  assert.deepEqual(await all(both), ['done', 'done', 'done', 'invalid', 'invalid']);
});
