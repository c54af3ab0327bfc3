import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import type { Checkout } from '../checkout.ts';
import type { TestCluster } from '../test-cluster.ts';
import { assertKept, longMs, membersOf, pushGuestbook, startWriter } from './guestbook.ts';

const database = 'guestbook-postgres';

export function describeDatabase(theCluster: () => TestCluster): void {
  let app: Checkout;
  let moment = '';

  test('an app gets a PostgreSQL of its own, and has written into it when the command has ended', async () => {
    app = await pushGuestbook(theCluster());
    const { stdout } = await app.flynn(['pg', 'psql', '--sql', 'SELECT note FROM notes', '--', '-At']);
    assert.equal(stdout, 'first\n');
    const members = await membersOf(theCluster(), theCluster().host);
    assert.deepEqual(
      members.map(({ role }) => role),
      ['primary'],
    );
  });

  test('what is in it at a moment is kept', async () => {
    const hasBegun = async () => /^Moments: +\d/m.test((await app.flynn(['pg', 'history'])).stdout);
    await waitFor(hasBegun, { what: 'the first moment', deadlineMs: longMs, intervalMs: 1_000 });
    assert.equal((await app.get('/?note=kept')).status, 200);
    const sql = 'SELECT now(), pg_sleep(0.1)';
    const { stdout } = await app.flynn(['pg', 'psql', '--sql', sql, '--', '-At', '-F,']);
    moment = new Date(stdout.split(',')[0] ?? '').toISOString();
    await app.flynn(['pg', 'psql', '--sql', "DELETE FROM notes WHERE note = 'kept'"]);
  });

  test('nobody else reaches it, whatever they know', async () => {
    const url = (await app.flynn(['env', 'get', 'DATABASE_URL'])).stdout.trim();
    const { hostname } = new URL(url);
    const program = `require('net').connect(5432, '${hostname}').setTimeout(30_000, function () { console.log('closed'); process.exit() }).on('connect', () => { console.log('open'); process.exit() }).on('error', (e) => { console.log(e.code); process.exit() })`;
    const run = ['run', 'node', '-e', program];
    assert.equal((await app.flynn(run)).stdout.trim(), 'open');
    assert.notEqual((await theCluster().flynn(['-a', 'express', ...run])).stdout.trim(), 'open');
  });

  test('its password is another while it is written: nothing is refused, and the former one opens nothing', async (t: TestContext) => {
    const cluster = theCluster();
    const former = (await app.flynn(['env', 'get', 'DATABASE_URL'])).stdout.trim();
    const writer = startWriter(cluster, cluster.host);
    await writer.more(5);
    assert.match((await app.flynn(['pg', 'credentials', 'rotate'])).stdout, /the former password opens nothing/);
    await writer.more(5);
    await assertKept(t, { writer, cluster, host: cluster.host });
    assert.equal(writer.refused, 0);
    const login = (url: string) =>
      `new (require('pg').Client)('${url}').connect().then(() => console.log('in'), (e) => console.log(e.code)).then(() => process.exit())`;
    const tryIt = async (url: string) => (await app.flynn(['run', 'node', '-e', login(url)])).stdout.trim();
    assert.equal(await tryIt(former), '28P01');
    assert.equal(await tryIt((await app.flynn(['env', 'get', 'DATABASE_URL'])).stdout.trim()), 'in');
    const psql = await app.flynn(['pg', 'psql', '--sql', 'SELECT current_user, session_user', '--', '-At']);
    assert.equal(psql.stdout, 'app|app_1\n');
  });

  test('a database that dies is there again with all that was confirmed', async (t: TestContext) => {
    const cluster = theCluster();
    const writer = startWriter(cluster, cluster.host);
    await writer.more(5);
    const [container = ''] = await cluster.containers(database, 'postgres');
    await cluster.dockerOf(cluster.host, 'kill', container);
    await writer.more(20);
    await assertKept(t, { writer, cluster, host: cluster.host });
  });

  test('what was dumped, and what was backed up, comes back as it was; a file that is none changes nothing', async () => {
    const before = (await app.get()).body;
    await app.flynn(['pg', 'dump', '-o', 'notes.dump']);
    await app.flynn(['pg', 'backup', 'run']);
    const { stdout } = await app.flynn(['pg', 'backup', '--json']);
    const [backup] = (JSON.parse(stdout) as { backups: { id: string }[] }).backups;
    await app.flynn(['pg', 'psql', '--sql', 'DELETE FROM notes']);
    assert.equal((await app.get()).body, '');
    await app.write('wrong.dump', 'PGDMP and nothing of the kind');
    await app.flynn(['pg', 'restore', 'wrong.dump', '-y'], { code: 1 });
    assert.equal((await app.get()).body, '');
    await app.flynn(['pg', 'restore', 'notes.dump', '-y']);
    assert.equal((await app.untilAnswers()).body, before);
    await app.flynn(['pg', 'psql', '--sql', 'DROP TABLE notes']);
    await app.flynn(['pg', 'backup', 'restore', backup?.id ?? '', '-y']);
    assert.equal((await app.untilAnswers()).body, before);
  });

  test('it goes back to that moment, with what was deleted since and nothing that was written since', async () => {
    await app.flynn(['pg', 'backup', 'restore', '--at', moment, '-y'], { timeoutMs: 600_000 });
    assert.equal((await app.untilAnswers()).body, 'first\nkept\n');
    assert.match((await app.flynn(['pg', 'backup'])).stdout, /Restored guestbook-postgres to what there was at/);
  });
}

export function describeDatabaseRemoval(theCluster: () => TestCluster): void {
  test('taken back it is gone: its containers, its volumes, and what led to it', async () => {
    const cluster = theCluster();
    const ofApp = ['-a', 'guestbook'];
    const { stdout } = await cluster.flynn([...ofApp, 'resource', '--json']);
    const [resource] = JSON.parse(stdout) as { id: string }[];
    const { stderr } = await cluster.flynn(['resource', 'remove', resource?.id ?? ''], { code: 1 });
    assert.match(stderr, /removing guestbook-postgres, with all that is in it and its backups, cannot be undone/);
    await cluster.flynn(['resource', 'remove', resource?.id ?? '', '-y']);
    assert.equal((await cluster.untilAnswers('guestbook')).body, 'no database yet\n');
    const noneIsLeft = async (): Promise<true> => {
      assert.deepEqual(await cluster.containers(database, 'postgres'), []);
      const keys = await cluster.storeKeys();
      assert.deepEqual(
        keys.filter((key) => key.startsWith('/flynn/keyspaces/')),
        [],
      );
      assert.doesNotMatch((await cluster.flynn(['volume'])).stdout, /postgres/);
      return true;
    };
    await waitFor(noneIsLeft, { what: 'all of it to go', deadlineMs: longMs, intervalMs: 500 });
    await cluster.flynn([...ofApp, 'delete', '-y']);
  });
}
