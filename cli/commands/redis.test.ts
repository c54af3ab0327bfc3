/** `flynn redis`, with members that are simulated; what it has in common with `flynn pg` is tested there. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { makeTestDatastore } from '@flynn/controller/datastores/datastore-fixture';
import { openDeskWithDatastore, saying } from './datastore-fixture.ts';

test('`redis` shows its members, how much memory is taken, and how many keys there are', async () => {
  await using env = await openDeskWithDatastore('redis');
  const members = [1, 2].map((host) => ({
    name: `m${host}`,
    address: `10.0.0.${host}`,
    isPrimary: host === 1,
    isSynchronous: host === 2,
    state: host === 1 ? 'running' : 'streaming',
    lagBytes: host === 1 ? null : 0,
  }));
  const database = {
    version: '8.1.1',
    sizeBytes: 1024 ** 2,
    maxBytes: 128 * 1024 ** 2,
    keys: 3,
    connections: 2,
    maxConnections: 1_000,
  };
  env.answerWith(() => saying({ members, database, problem: null }));
  const { stdout, code } = await env.desk.run(['redis', '-a', 'shop']);
  assert.equal(code, 0);
  assert.match(
    stdout,
    new RegExp(
      [
        '^Name:      shop-redis .*',
        'Version:   redis 8.1.1',
        'Database:  3 keys, 1.0 MiB of 128.0 MiB in memory, 2 of 1000 connections',
        'Memory:    256MB for each member',
        '',
        'HOST +ROLE +STATE.*',
        'host1 +primary +running.*',
        'host2 +replica,ready +streaming.*\n$',
      ].join('\n'),
    ),
  );
});

test('each kind has a command of its own, which names that of the other', async () => {
  await using env = await openDeskWithDatastore('redis');
  const { desk, controller } = env;
  assert.match(
    (await desk.run(['pg', '-a', 'shop'])).stderr,
    /shop has no PostgreSQL .*\n {2}flynn resource add postgres/,
  );
  assert.match(
    (await desk.run(['pg', '-a', 'shop-redis'])).stderr,
    /shop-redis is no PostgreSQL but a redis\n {2}flynn redis -a shop-redis is for that/,
  );
  await makeTestDatastore(controller, { app: 'shop' });
  env.answerWith(() => saying({ members: [], database: null, problem: null }));
  assert.match((await desk.run(['redis', '-a', 'shop'])).stdout, /^Name: +shop-redis /);
  assert.match((await desk.run(['pg', '-a', 'shop'])).stdout, /^Name: +shop-postgres /);
  assert.match((await desk.run(['info', '-a', 'shop-redis'])).stdout, /"flynn redis -a shop-redis" tells more/);
  assert.match((await desk.run(['export', '-a', 'shop-redis'])).stderr, /flynn redis dump -a shop-redis/);
});

test('`redis cli` feeds a console, or gives it a command; it has what apps are given', async () => {
  await using env = await openDeskWithDatastore('redis');
  const { desk, controller, datastore } = env;
  controller.setBehaviour(({ template }) => ({
    is: 'run',
    lines: [[...(template.entrypoint ?? []), ...(template.command ?? []), template.env?.['REDISCLI_AUTH']].join('|')],
  }));
  const piped = await desk.run(['redis', 'cli', '-a', 'shop', '--', 'GET', 'a'], { input: 'GET b' });
  const password = datastore.secrets['REDIS_PASSWORD'] ?? '';
  assert.equal(
    piped.stdout,
    `valkey-cli|-h|shop-redis-primary.flynn|-p|6379|--user|app|-e|GET|a|${password}\nGET b`,
    piped.stderr,
  );
});

test('`redis dump` and `redis restore` are of files as Redis has them', async () => {
  await using env = await openDeskWithDatastore('redis');
  const { desk } = env;
  env.answerWith((command) => (command.at(-1) === 'dump' ? { stdout: 'REDIS0011', code: 0 } : undefined));
  assert.match(
    (await desk.run(['redis', 'dump', '-a', 'shop'])).stdout,
    /shop-redis-\d{8}T\d{6}Z\.rdb: all of shop-redis, 9 bytes/,
  );
  await writeFile(join(desk.home, 'a.rdb'), 'REDIS0011');
  env.answerWith(() => saying({ before: { sizeBytes: 2_048, keys: 1 }, after: { sizeBytes: 1_024, keys: 2 } }));
  assert.equal(
    (await desk.run(['redis', 'restore', 'a.rdb', '-y', '-a', 'shop'])).stdout,
    'Restored shop-redis from a.rdb: 2 keys, 1.0 KiB, in the place of 1 key, 2.0 KiB.\n',
  );
});
