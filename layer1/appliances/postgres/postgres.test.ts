/** What the controller gives a member and what its programs ask for are the same. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { postgres } from './postgres.ts';

const program = (name: string): string => readFileSync(join(import.meta.dirname, name), 'utf8');
const programs = ['flynn-postgres', 'flynn-postgres-begin', 'flynn-postgres-client'].map(program).join('\n');

test('its programs use every secret that it is given, and no other', () => {
  const used = new Set([...programs.matchAll(/\$\{?([A-Z_]+PASSWORD)\b/g)].map(([, name]) => name));
  // Of libpq, which the client program sets itself.
  used.delete('PGPASSWORD');
  assert.deepEqual(used, new Set(postgres.secrets));
});

test('Patroni takes the times that members go by as they are', () => {
  const setting = (name: string) => Number(new RegExp(`^${name}: (\\d+)$`, 'm').exec(programs)?.[1]);
  assert.ok(setting('loop_wait') + 2 * setting('retry_timeout') <= setting('ttl'));
});

test('an app is led to the primary, as the owner of the database', () => {
  const secrets = Object.fromEntries(postgres.secrets.map((name) => [name, name.toLowerCase()]));
  const login = postgres.logins.first(secrets);
  const variables = postgres.variables({ login, host: (role) => `shop-${role}.flynn` });
  const url = new URL(variables['DATABASE_URL'] ?? '');
  assert.deepEqual(
    [url.username, url.password, url.hostname, url.port, url.pathname],
    ['app', 'postgres_password', 'shop-primary.flynn', '5432', '/app'],
  );
  assert.deepEqual([variables['PGHOST'], variables['PGPASSWORD']], [url.hostname, url.password]);
  assert.deepEqual(postgres.logins.of(variables), login);
  assert.match(programs, /CREATE DATABASE app OWNER app/);
});

test('whoever is next is told with nothing that opens anything, and is never who was there just before', () => {
  const { after, admit } = postgres.logins;
  assert.deepEqual(['app', 'app_1', 'app_2'].map(after), ['app_1', 'app_2', 'app_1']);
  const { command, input } = admit([
    { name: 'app', password: 'former' },
    { name: 'app_1', password: 'other' },
  ]);
  assert.match(input, /^app SCRAM-SHA-256\$\S+\napp_1 SCRAM-SHA-256\$\S+\n$/);
  assert.doesNotMatch([...command, input].join(' '), /former|other/);
});

test('a superuser’s names are looked up in no schema where the app makes functions, whatever is set on the database', () => {
  const secrets = Object.fromEntries(postgres.secrets.map((name) => [name, name.toLowerCase()]));
  const input = { login: postgres.logins.first(secrets), host: (role: string) => role };
  assert.equal(postgres.console({ ...input, secrets }).env['PGOPTIONS'], '-c search_path=');
  assert.equal(postgres.console(input).env['PGOPTIONS'], undefined);
});
