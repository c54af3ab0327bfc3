/** What the controller gives a member and what its programs ask for are the same. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mysql } from './mysql.ts';

const host = (role: string) => `shop-${role}.flynn`;

test('an app is led to the primary', () => {
  const secrets = Object.fromEntries(mysql.secrets.map((name) => [name, name.toLowerCase()]));
  const login = mysql.logins.first(secrets);
  const variables = mysql.variables({ login, host });
  const { DATABASE_URL, MYSQL_URL, ...rest } = variables;
  const url = new URL(MYSQL_URL ?? '');
  assert.deepEqual(
    [url.protocol, url.username, url.password, url.hostname, url.port, url.pathname],
    ['mysql:', 'app', 'mysql_password', 'shop-primary.flynn', '3306', '/app'],
  );
  assert.equal(DATABASE_URL, MYSQL_URL);
  assert.deepEqual(rest, {
    MYSQL_HOST: url.hostname,
    MYSQL_PORT: '3306',
    MYSQL_USER: 'app',
    MYSQL_PASSWORD: 'mysql_password',
    MYSQL_DATABASE: 'app',
  });
  assert.deepEqual(mysql.logins.of(variables), login);
});

test('a console shows no password among its words', () => {
  const login = { name: 'app_1', password: 'mine' };
  const own = mysql.console({ login, host });
  const userOf = ({ command }: typeof own) => command[command.indexOf('--user') + 1];
  assert.deepEqual([own.command[0], userOf(own), own.command.at(-1)], ['mariadb', 'app_1', 'app']);
  assert.equal(own.command[own.command.indexOf('--host') + 1], 'shop-primary.flynn');
  assert.deepEqual(own.env, { MYSQL_PWD: 'mine' });
  const above = mysql.console({ login, host, secrets: { MYSQL_SUPERUSER_PASSWORD: 'super' } });
  assert.equal(userOf(above), 'admin');
  assert.deepEqual(above.env, { MYSQL_PWD: 'super' });
  assert.doesNotMatch(own.command.concat(above.command).join(' '), /mine|super/);
});

test('whoever is next is told with nothing that opens anything, and is never who was there just before', () => {
  const { after, admit, letIn } = mysql.logins;
  assert.deepEqual(['app', 'app_1', 'app_2'].map(after), ['app_1', 'app_2', 'app_1']);
  const logins = [
    { name: 'app', password: 'former' },
    { name: 'app_1', password: 'other' },
  ];
  const { command, input } = admit(logins);
  assert.match(input, /^app \*[0-9A-F]{40}\napp_1 \*[0-9A-F]{40}\n$/);
  assert.doesNotMatch([...command, input].join(' '), /former|other/);
  assert.equal(letIn(logins).input, input);
});

test('a digest is what the server itself makes of a password', () => {
  // SELECT PASSWORD('password')
  const { input } = mysql.logins.admit([{ name: 'app', password: 'password' }]);
  assert.equal(input, 'app *2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19\n');
});
