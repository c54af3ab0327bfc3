/** What the controller gives a member and what its programs ask for are the same. */
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { redis } from './redis.ts';

const folder = join(import.meta.dirname, 'programs');
const programs = readdirSync(folder)
  .map((name) => readFileSync(join(folder, name), 'utf8'))
  .join('\n');

test('its programs use every secret that they are given, and no other', () => {
  const used = new Set([...programs.matchAll(/\["([A-Z_]+PASSWORD)"\]/g)].map(([, name]) => name));
  assert.deepEqual(used, new Set(redis.secrets));
});

test('an app is led to the primary', () => {
  const secrets = Object.fromEntries(redis.secrets.map((name) => [name, name.toLowerCase()]));
  const login = redis.logins.first(secrets);
  const variables = redis.variables({ login, host: (role) => `shop-${role}.flynn` });
  const url = new URL(variables['REDIS_URL'] ?? '');
  assert.deepEqual(
    [url.protocol, url.username, url.password, url.hostname, url.port, url.pathname],
    ['redis:', 'app', 'redis_password', 'shop-primary.flynn', '6379', ''],
  );
  assert.deepEqual([variables['REDIS_HOST'], variables['REDIS_PASSWORD']], [url.hostname, url.password]);
  assert.deepEqual(redis.logins.of(variables), login);
});

test('a console shows no password among its words', () => {
  const host = (role: string) => `shop-${role}.flynn`;
  const login = { name: 'app_1', password: 'mine' };
  const own = redis.console({ login, host });
  assert.deepEqual(
    [own.command.slice(0, 5).join(' '), own.env],
    ['valkey-cli -h shop-primary.flynn -p 6379', { REDISCLI_AUTH: 'mine' }],
  );
  assert.equal(own.command[own.command.indexOf('--user') + 1], 'app_1');
  const above = redis.console({ login, host, secrets: { REDIS_SUPERUSER_PASSWORD: 'super' } });
  assert.equal(above.command[above.command.indexOf('--user') + 1], 'flynn');
  assert.deepEqual(above.env, { REDISCLI_AUTH: 'super' });
  assert.doesNotMatch(own.command.concat(above.command).join(' '), /mine|super/);
});

test('whoever is next is told with nothing that opens anything, and is never who was there just before', () => {
  const { after, admit } = redis.logins;
  assert.deepEqual(['app', 'app_1', 'app_2'].map(after), ['app_1', 'app_2', 'app_1']);
  const { command, input } = admit([
    { name: 'app', password: 'former' },
    { name: 'app_1', password: 'other' },
  ]);
  assert.match(input, /^app [0-9a-f]{64}\napp_1 [0-9a-f]{64}\n$/);
  assert.doesNotMatch([...command, input].join(' '), /former|other/);
});

test('what people may say of memory that is full is what Valkey knows', () => {
  const said = /EVICTIONS = \(\s*"([^"]+)"/.exec(programs)?.[1]?.split(' ');
  assert.deepEqual(redis.options['eviction']?.values, said);
  assert.equal(said?.[0], 'noeviction');
  assert.match(programs, /env\.get\("MAXMEMORY_POLICY", "noeviction"\)/);
});
