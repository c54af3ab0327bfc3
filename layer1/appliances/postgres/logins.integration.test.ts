/** Whom apps log in to a PostgreSQL as, while that changes. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { pause } from '@flynn/kit/clock';
import { waitFor } from '@flynn/kit/retry';
import type { Login } from '../appliance.ts';
import type { Ended } from '../members-fixture.ts';
import { type PostgresMembers, startMembers } from './members-fixture.ts';
import { postgres } from './postgres.ts';

const { dump, restore, import: importing, switchover } = postgres.commands;
/** As the fixture has it. */
const app: Login = { name: 'app', password: 'own' };
const one: Login = { name: 'app_1', password: 'one' };
const two: Login = { name: 'app_2', password: 'two' };

let place: PostgresMembers;
before(async () => {
  place = await startMembers({ count: 2 });
});
after(async () => {
  await place?.[Symbol.asyncDispose]();
});

function assertDone({ code, stderr }: Ended): void {
  assert.equal(code, 0, stderr);
}

async function admit(...logins: Login[]): Promise<void> {
  await tell(postgres.logins.admit(logins));
}

async function tell({ command, input }: ReturnType<typeof postgres.logins.admit>): Promise<void> {
  assertDone(await place.exec(command, { input: Buffer.from(input) }));
}

async function said(login: Login, sql: string): Promise<string> {
  const ended = await place.queryAs(login, sql);
  assertDone(ended);
  return ended.stdout.toString().trim();
}

async function assertShutOut(login: Login): Promise<void> {
  const { code, stderr } = await place.queryAs(login, 'SELECT 1');
  assert.notEqual(code, 0);
  assert.match(stderr, new RegExp(`password authentication failed for user "${login.name}"`));
}

/** An app that writes all the time, each time as a session of its own, and what was refused to it. */
function startWriter(login: Login) {
  const ending = new AbortController();
  const refused: string[] = [];
  let written = 0;
  const run = async (): Promise<void> => {
    while (!ending.signal.aborted) {
      const { code, stderr } = await place.queryAs(login, 'INSERT INTO note DEFAULT VALUES');
      if (code === 0) written += 1;
      else refused.push(stderr);
      await pause(1, ending.signal);
    }
  };
  const running = run();
  return {
    more: (count: number) => {
      const wanted = written + count;
      return waitFor(() => written >= wanted || refused.length > 0, {
        what: 'more to be written',
        deadlineMs: 60_000,
        intervalMs: 20,
      });
    },
    /** How many it wrote, all that it tried. */
    async stop(): Promise<number> {
      ending.abort();
      await running;
      assert.deepEqual(refused, []);
      return written;
    },
  };
}

/** Until the server ends it. */
async function openSession(login: Login): Promise<{ ended: Promise<Ended> }> {
  const ended = place.queryAs(login, 'SET statement_timeout = 0; SELECT pg_sleep(600)');
  const isThere = async () =>
    (await place.query(
      `SELECT count(*) FROM pg_stat_activity WHERE usename = '${login.name}' AND query LIKE '%pg_sleep(600)'`,
    )) === '1';
  await waitFor(isThere, { what: 'the session', deadlineMs: 30_000, intervalMs: 50 });
  return { ended };
}

/** From one to the other, while apps write. */
async function rotate(former: Login, next: Login): Promise<void> {
  const writes = async () => Number(await place.query('SELECT count(*) FROM note'));
  const before = await writes();
  const writer = startWriter(former);
  await writer.more(5);
  const session = await openSession(former);
  await tell(postgres.logins.letIn([next]));
  await writer.more(5);
  const other = startWriter(next);
  await other.more(5);
  const written = await writer.stop();
  await admit(next);
  await other.more(5);
  const more = await other.stop();
  assert.equal(await writes(), before + written + more);
  await assertShutOut(former);
  const { code, stderr } = await session.ended;
  assert.notEqual(code, 0);
  assert.match(stderr, /terminating connection due to administrator command/);
}

test(
  'one login takes the place of the other while apps write: nothing is refused before they have it, and then the former is shut out',
  { timeout: 900_000 },
  async () => {
    await said(app, 'CREATE TABLE note (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY)');
    await rotate(app, one);
    await said(one, 'CREATE TABLE made_by_one (id int)');
    await rotate(one, two);
    await said(two, 'CREATE TABLE made_by_two (id int)');
    await rotate(two, { ...one, password: 'one anew' });
    await assertShutOut(one);
    await assertShutOut(app);
  },
);

test('what either makes is the owner’s, and the other reads and changes it; also what it made as itself', async () => {
  await admit(one);
  const alone = 'SET ROLE NONE; CREATE SCHEMA alone; CREATE TABLE alone.note (id int); RESET ROLE';
  await said(one, `DISCARD ALL`);
  await said(one, alone);
  await admit(one, two);
  for (const table of ['note', 'made_by_one', 'made_by_two', 'alone.note']) {
    await said(two, `ALTER TABLE ${table} ADD COLUMN IF NOT EXISTS more int; SELECT count(more) FROM ${table}`);
  }
  const owners = "SELECT DISTINCT relowner::regrole FROM pg_class WHERE relname ~ '^note|^made_by'";
  assert.equal(await said(two, owners), 'app');
  assert.equal(await said(two, "SELECT nspowner::regrole FROM pg_namespace WHERE nspname = 'alone'"), 'app');
  await said(two, 'DROP SCHEMA alone CASCADE');
  // What it may not do it may not do as nobody either.
  const { stderr } = await place.queryAs(two, 'SET ROLE NONE; ALTER ROLE app LOGIN');
  assert.match(stderr, /permission denied to alter role/);
});

test('whoever logs in ends sessions of the other, and their own, as the owner', async () => {
  await admit(one, two);
  for (const login of [one, two]) {
    const { ended } = await openSession(login);
    const end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)'";
    assert.equal(await said(one, `${end} AND pid <> pg_backend_pid()`), '1');
    assert.notEqual((await ended).code, 0);
  }
});

test('what people set for the owner is for whoever logs in next; an input that names nobody shuts nobody out', async () => {
  await admit(one);
  await said(
    one,
    `ALTER ROLE app SET search_path = "a b", public; ALTER ROLE app IN DATABASE app SET work_mem = '7MB'`,
  );
  await admit(one, two);
  assert.equal(await said(two, 'SHOW search_path; SHOW work_mem'), '"a b", public\n7MB');
  const { command } = postgres.logins.admit([]);
  for (const input of ['', 'app\n', 'app_3 SCRAM-SHA-256$1:a$b:c\n', "app_1 x'; DROP ROLE app\n"]) {
    assert.equal((await place.exec(command, { input: Buffer.from(input) })).code, 64, input);
  }
  assert.equal(await said(one, 'SELECT session_user'), 'app_1');
  await said(one, 'ALTER ROLE app RESET ALL; ALTER ROLE app IN DATABASE app RESET ALL');
});

test('a dump, a restore and an import do as before, also on new data, where none of the logins are known', async () => {
  await admit(two);
  await said(two, 'SET ROLE NONE; CREATE TABLE as_itself (id int); INSERT INTO as_itself VALUES (1)');
  const dumped = await place.exec(dump);
  assertDone(dumped);
  await place.query('REASSIGN OWNED BY app_1, app_2, app_import TO app; DROP OWNED BY app_1, app_2, app_import');
  await place.query('DROP ROLE app_1, app_2, app_import', 'postgres');
  assertDone(await place.exec(restore, { input: dumped.stdout }));
  await assertShutOut(two);
  await admit(one);
  assert.equal(await said(one, 'ALTER TABLE as_itself ADD COLUMN more int; SELECT id FROM as_itself'), '1');

  const own = await place.exec(['pg_dump', '--format', 'custom', `postgres://postgres:super@127.0.0.1/app`]);
  assertDone(own);
  const pieces = Buffer.concat([Buffer.from(`${own.stdout.length}\n`), own.stdout, Buffer.from('0\n')]);
  assertDone(await place.exec(importing, { input: pieces }));
  assert.equal(await said(one, 'DELETE FROM as_itself RETURNING id'), '1');
  assert.equal(await place.query("SELECT rolcanlogin FROM pg_roles WHERE rolname = 'app_import'"), 'f');
});

test('another primary lets in the same; of passwords nothing is in a log, or among the statements an app may look at', async () => {
  const secret = { ...two, password: 'very-secret-indeed' };
  await admit(secret);
  await place.copied();
  assertDone(await place.exec(switchover));
  await place.copied();
  assert.equal(await said(secret, 'SELECT current_user, session_user'), 'app|app_2');
  await assertShutOut(one);
  const statements = await said(secret, "SELECT string_agg(query, ' ') FROM pg_stat_statements");
  const logs = [await place.logOf(1), await place.logOf(2)].join('\n');
  assert.doesNotMatch(`${statements}\n${logs}`, /SCRAM-SHA-256\$|very-secret|PASSWORD '/);
});

test('an import that was killed leaves nobody who logs in, once what it left is cleared up', async () => {
  await place.query("ALTER ROLE app_import LOGIN PASSWORD 'left'", 'postgres');
  assertDone(await place.exec(['/usr/lib/flynn/flynn-postgres-client', 'mend']));
  await assertShutOut({ name: 'app_import', password: 'left' });
  assert.equal(await place.query("SELECT rolcanlogin FROM pg_roles WHERE rolname = 'app_import'"), 'f');
});
