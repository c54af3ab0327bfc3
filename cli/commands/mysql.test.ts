/** `flynn mysql`, with members that are simulated; what it has in common with `flynn pg` is tested there. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { openDeskWithDatastore, saying } from './datastore-fixture.ts';

test('`mysql` shows its members, and how much is in it', async () => {
  await using env = await openDeskWithDatastore('mysql');
  const members = [1, 2].map((host) => ({
    name: `m${host}`,
    address: `10.0.0.${host}`,
    isPrimary: host === 1,
    isSynchronous: host === 2,
    state: host === 1 ? 'running' : 'streaming',
    lagBytes: host === 1 ? null : 0,
  }));
  const database = { version: '11.8.3-MariaDB', sizeBytes: 1024 ** 2, connections: 2, maxConnections: 60 };
  env.answerWith(() => saying({ members, database, problem: null }));
  const { stdout, code } = await env.desk.run(['mysql', '-a', 'shop']);
  assert.equal(code, 0);
  assert.match(
    stdout,
    new RegExp(
      [
        '^Name:      shop-mysql .*',
        'Version:   mysql 11.8.3-MariaDB',
        'Database:  1.0 MiB, 2 of 60 connections',
        'Memory:    512MB for each member',
        '',
        'HOST +ROLE +STATE.*',
        'host1 +primary +running.*',
        'host2 +replica,sync +streaming.*\n$',
      ].join('\n'),
    ),
  );
  assert.match(
    (await env.desk.run(['redis', '-a', 'shop-mysql'])).stderr,
    /shop-mysql is no Redis but a mysql\n {2}flynn mysql -a shop-mysql is for that/,
  );
});

test('`mysql console` feeds a client, or gives it statements; it has what apps are given', async () => {
  await using env = await openDeskWithDatastore('mysql');
  const { desk, controller, datastore } = env;
  controller.setBehaviour(({ template }) => ({
    is: 'run',
    lines: [[...(template.command ?? []), template.env?.['MYSQL_PWD']].join('|')],
  }));
  const password = datastore.secrets['MYSQL_PASSWORD'] ?? '';
  const piped = await desk.run(['mysql', 'console', '-a', 'shop', '--', '--table'], { input: 'SELECT 1;' });
  assert.match(piped.stdout, /\|--host\|shop-mysql-primary\.flynn\|--port\|3306\|--user\|app\|/);
  assert.ok(piped.stdout.endsWith(`|app|--table|${password}\nSELECT 1;`), piped.stdout + piped.stderr);
  const asked = await desk.run(['mysql', 'console', '-a', 'shop', '--sql', 'SELECT 1 -- one', '--sql', 'SELECT 2']);
  assert.match(asked.stdout, /\|--execute=SELECT 1 -- one\n;\nSELECT 2\|/);
});

test('`mysql dump` and `mysql restore` are of SQL, compressed or not', async () => {
  await using env = await openDeskWithDatastore('mysql');
  const { desk } = env;
  env.answerWith((command) => (command.at(-1) === 'dump' ? { stdout: 'SQL', code: 0 } : undefined));
  assert.match(
    (await desk.run(['mysql', 'dump', '-a', 'shop'])).stdout,
    /shop-mysql-\d{8}T\d{6}Z\.sql\.gz: all of shop-mysql, 3 bytes/,
  );
  await writeFile(join(desk.home, 'a.sql'), 'SQL');
  env.answerWith(() => saying({ before: { sizeBytes: 2_048, tables: 1 }, after: { sizeBytes: 1_024, tables: 2 } }));
  assert.equal(
    (await desk.run(['mysql', 'restore', 'a.sql', '-y', '-a', 'shop'])).stdout,
    'Restored shop-mysql from a.sql: 2 tables, 1.0 KiB, in the place of 1 table, 2.0 KiB.\n',
  );
});
