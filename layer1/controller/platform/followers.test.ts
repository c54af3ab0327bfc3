import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import { startLoopback } from '@flynn/kit/loopback';
import { waitFor } from '@flynn/kit/retry';
import { routes as logRoutes } from '@flynn/log-aggregator/api';
import { grants, tokens, users } from '../access/api.ts';
import { apps } from '../api.ts';
import { createControllerClient } from '../client.ts';
import { startTestController } from '../testing.ts';
import { platform } from './api.ts';

test('one person follows so many logs at a time; another, and an admin, more', async () => {
  const asked: boolean[] = [];
  await using aggregator = await startLoopback([
    handle(logRoutes.read, async ({ query }) => {
      asked.push(query.isForAdmin === true);
      return { body: new PassThrough(), headers: {} };
    }),
  ]);
  await using world = await startTestController({ logAggregatorUrl: aggregator.server.url });
  const { client } = world;
  await client.call(apps.create, { body: { name: 'shop' } });
  const someone = async (name: string) => {
    await client.call(users.create, { body: { name } });
    await client.call(grants.put, { params: { app: 'shop', kind: 'user', name }, body: { role: 'viewer' } });
    const { token } = await client.call(tokens.create, { body: { name: 'test', user: name } });
    return createControllerClient({ baseUrl: world.url, key: token });
  };
  await using vera = await someone('vera');
  await using walt = await someone('walt');
  const leaving = new AbortController();
  const follow = async (who: typeof vera, signal = leaving.signal) => {
    const body = await who.stream(platform.log, { params: { app: 'shop' }, query: { follow: true } }, { signal });
    body.on('error', () => {});
  };
  const first = new AbortController();
  await follow(vera, first.signal);
  for (let at = 1; at < 8; at += 1) await follow(vera);
  await assert.rejects(follow(vera), (error) => hasCode(error, 'exhausted'));
  await follow(walt);
  assert.ok(!asked.includes(true));
  for (let at = 0; at < 9; at += 1) await follow(client);
  assert.equal(asked.filter(Boolean).length, 9);
  first.abort();
  await waitFor(
    () =>
      follow(vera).then(
        () => true,
        () => false,
      ),
    { what: 'the place to be free', deadlineMs: 60_000 },
  );
  leaving.abort();
});
