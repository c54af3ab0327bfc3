/** What comes back of a PostgreSQL whose tables call functions, and that none of these has more rights than who made it. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import type { Ended } from '../members-fixture.ts';
import { pieces, type PostgresMembers, startMembers } from './members-fixture.ts';
import { postgres } from './postgres.ts';

const { dump, restore, import: importing } = postgres.commands;

let place: PostgresMembers;
before(async () => {
  place = await startMembers({ count: 1 });
  // With it there are the app's logins.
  assertDone(await place.exec(importing, { input: pieces(Buffer.from('SELECT 1;\n')) }));
});
after(async () => {
  await place?.[Symbol.asyncDispose]();
});
// Nothing of the test before is there.
beforeEach(() => place.query('DROP OWNED BY app CASCADE'));

const asApp = (sql: string) => place.query(`SET ROLE app; ${sql}`);

function assertDone({ code, stderr }: Ended): void {
  assert.equal(code, 0, stderr);
}

/** All that a dump says of it, which has a new word in two lines each time. */
async function described(): Promise<string> {
  const { stdout } = await place.exec(['pg_dump', `postgres://postgres:super@${place.primary()}/app`]);
  return stdout.toString().replaceAll(/^\\(un)?restrict .*$/gm, '');
}

const superusers = () => place.query("SELECT string_agg(rolname, ' ') FROM pg_roles WHERE rolsuper");

/** Where it may, it makes itself a superuser. It says that it changes nothing, so it is called as early as can be. */
const evil = `
  CREATE FUNCTION become() RETURNS int LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'ALTER ROLE app SUPERUSER'; RETURN 1;
    EXCEPTION WHEN insufficient_privilege THEN RETURN 1; END $$;
  CREATE FUNCTION evil(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN public.become(); END';`;

test('what tables, types, keys and indices call is called without the rights of a superuser', async () => {
  await asApp(`${evil}
    CREATE TABLE item (id int CHECK (evil(id) = 1), twice int GENERATED ALWAYS AS (id + evil(1)) STORED);
    INSERT INTO item VALUES (1); CREATE INDEX item_evil ON item ((evil(id)));
    CREATE DOMAIN one AS int CHECK (evil(VALUE) = 1);
    CREATE FUNCTION first(one, int) RETURNS one LANGUAGE sql AS 'SELECT $1';
    CREATE AGGREGATE firsts (int) (SFUNC = first, STYPE = one, INITCOND = '1');
    CREATE TABLE parts (id one) PARTITION BY RANGE (id); CREATE TABLE part PARTITION OF parts FOR VALUES FROM (1) TO (9);
    INSERT INTO parts VALUES (2);
    CREATE TABLE others (id int CHECK (evil(1) = 1)) PARTITION BY RANGE ((id + evil(1)));
    CREATE TABLE other PARTITION OF others DEFAULT; INSERT INTO others VALUES (3);
    CREATE TYPE letter AS ENUM ('a');
    CREATE FUNCTION number_of(letter) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN public.become(); END';
    CREATE CAST (letter AS int) WITH FUNCTION number_of(letter) AS IMPLICIT;
    CREATE TABLE key (id int PRIMARY KEY); INSERT INTO key VALUES (1);
    CREATE TABLE using_key (id letter REFERENCES key); INSERT INTO using_key VALUES ('a');
    CREATE MATERIALIZED VIEW seen AS SELECT evil(id) FROM item`);
  const was = await described();
  const { stdout } = await place.exec(dump);
  assertDone(await place.exec(restore, { input: stdout }));
  assert.equal(await superusers(), 'postgres');
  assert.equal(await described(), was);
  assert.equal(await place.query("SELECT count(*) FROM pg_roles WHERE rolname = 'app_restore' AND rolcanlogin"), '0');
});

test('what one of the app’s logins made as itself is made without the rights of a superuser, too', async () => {
  await place.query(`SET ROLE app_1; ${evil}
    CREATE TABLE others (id int CHECK (evil(1) = 1)) PARTITION BY RANGE ((id + evil(1)));
    CREATE TABLE other PARTITION OF others DEFAULT; INSERT INTO others VALUES (3)`);
  const { stdout } = await place.exec(dump);
  assertDone(await place.exec(restore, { input: stdout }));
  assert.equal(await superusers(), 'postgres');
  assert.equal(await asApp('SELECT tableowner, id FROM pg_tables, others WHERE tablename = $$other$$'), 'app|3');
});

test('thousands of tables come back, which are more than can be locked at once with what is theirs', async () => {
  await place.query(`DO $$ BEGIN FOR n IN 1..4500 LOOP
    EXECUTE format('CREATE TABLE t%s (id serial, name text); ALTER TABLE t%s OWNER TO app', n, n);
    COMMIT;
  END LOOP; END $$`);
  const { stdout } = await place.exec(dump);
  assertDone(await place.exec(restore, { input: stdout }));
  const owners =
    "SELECT relkind, relowner::regrole, count(*) FROM pg_class WHERE relname ~ '^t[0-9]' GROUP BY 1, 2 ORDER BY 1";
  assert.equal(await place.query(owners), 'S|app|4500\nr|app|4500');
  // They cannot be dropped at once, either.
  assertDone(await place.exec(importing, { input: pieces(Buffer.from('CREATE TABLE item ();\n')) }));
});

test('what an admin made beside comes back as it was: tables, schemas, rights, keys to it, rows that nobody else reads', async () => {
  await place.query(`CREATE ROLE reporting;
    CREATE SCHEMA kept; GRANT USAGE ON SCHEMA kept TO app; CREATE TABLE kept.own (id int); ALTER TABLE kept.own OWNER TO app;
    INSERT INTO kept.own VALUES (1); REVOKE CREATE ON SCHEMA public FROM pg_database_owner;
    CREATE TABLE country (id int PRIMARY KEY); INSERT INTO country VALUES (1); GRANT SELECT, REFERENCES ON country TO app;
    CREATE TABLE town (id int REFERENCES country); ALTER TABLE town OWNER TO app; INSERT INTO town VALUES (1);
    CREATE TABLE report (id int REFERENCES country, at serial, n int CHECK (n > 0)); ALTER TABLE report OWNER TO reporting;
    INSERT INTO report VALUES (1, 7, 2);
    ALTER TABLE report ENABLE ROW LEVEL SECURITY; ALTER TABLE report FORCE ROW LEVEL SECURITY;
    CREATE POLICY nobody ON report USING (false); CREATE SCHEMA "Of us"; CREATE TABLE "Of us"."A b" (c text DEFAULT 'd');
    ALTER TABLE "Of us"."A b" OWNER TO app; INSERT INTO "Of us"."A b" VALUES ('e');
    SELECT lo_create(4712); ALTER LARGE OBJECT 4712 OWNER TO reporting; SELECT lo_put(4712, 0, 'abc')`);
  const was = await described();
  const { stdout } = await place.exec(dump);
  assertDone(await place.exec(restore, { input: stdout }));
  assert.equal(await described(), was);
  // The next has no more of these than the last.
  await place.query(`DROP OWNED BY reporting; DROP TABLE town, country; DROP SCHEMA kept CASCADE; DROP SCHEMA "Of us" CASCADE;
    GRANT CREATE ON SCHEMA public TO pg_database_owner; DROP ROLE reporting`);
});

test('a view of what PostgreSQL has counted comes back', async () => {
  await asApp(`CREATE VIEW slow AS SELECT query, mean_exec_time FROM pg_stat_statements;
    CREATE FUNCTION slowest() RETURNS SETOF pg_stat_statements LANGUAGE sql AS 'SELECT * FROM pg_stat_statements LIMIT 1'`);
  const was = await described();
  const { stdout } = await place.exec(dump);
  await place.query('DROP VIEW slow');
  assertDone(await place.exec(restore, { input: stdout }));
  assert.equal(await described(), was);
});

test('checks that look into other tables by their names alone come back, also where those are filled later', async () => {
  const checks = (table: string) =>
    place.query(`SELECT convalidated FROM pg_constraint WHERE contype = 'c' AND conrelid = '${table}'::regclass`);
  await asApp(`CREATE TABLE plan (name text PRIMARY KEY); INSERT INTO plan VALUES ('small'), ('old');
    CREATE FUNCTION is_plan(text) RETURNS boolean LANGUAGE sql STABLE AS 'SELECT EXISTS (SELECT FROM plan WHERE name = $1)';
    CREATE TABLE account (plan text CONSTRAINT "100% a plan's" CHECK (is_plan(plan)));
    COMMENT ON CONSTRAINT "100% a plan's" ON account IS 'one there is'; INSERT INTO account VALUES ('small');
    CREATE TABLE more () INHERITS (account); INSERT INTO more VALUES ('small');
    CREATE TABLE lists (plan text CHECK (is_plan(plan))) PARTITION BY LIST (plan);
    CREATE TABLE of_small PARTITION OF lists FOR VALUES IN ('small');
    CREATE TABLE of_rest (plan text CONSTRAINT lists_plan_check CHECK (is_plan(plan)));
    ALTER TABLE lists ATTACH PARTITION of_rest DEFAULT; INSERT INTO lists VALUES ('small')`);
  const was = await described();
  const { stdout } = await place.exec(dump);
  assertDone(await place.exec(restore, { input: stdout }));
  assert.equal(await described(), was);
  assert.equal(await checks('account'), 't');

  // What is not true any more is no reason to have nothing back.
  await asApp(`CREATE TABLE former (plan text CHECK (is_plan(plan))); INSERT INTO former VALUES ('old');
    DELETE FROM plan WHERE name = 'old'`);
  const later = await place.exec(dump);
  const restored = await place.exec(restore, { input: later.stdout });
  assertDone(restored);
  assert.match(restored.stderr, /the check former_plan_check of public\.former is not true of all that is restored/);
  assert.equal(await place.query('SELECT plan FROM former'), 'old');
  assert.equal(await checks('former'), 'f');
  await assert.rejects(asApp("INSERT INTO former VALUES ('none')"), /violates check constraint/);
});

test('where names are looked up in the database has nothing of the app’s called by whoever restores it', async () => {
  await asApp(`${evil}
    CREATE FUNCTION pg_database_size(name) RETURNS bigint LANGUAGE sql AS 'SELECT public.become()::bigint';
    CREATE FUNCTION format(text, name, regnamespace, text) RETURNS text LANGUAGE sql AS 'SELECT public.become()::text';
    CREATE FUNCTION current_database() RETURNS name LANGUAGE sql AS 'SELECT public.become()::text::name'`);
  await place.query('ALTER DATABASE app SET search_path = public, pg_catalog', 'postgres');
  assertDone(await place.exec(importing, { input: pieces(Buffer.from('CREATE TABLE item ();\n')) }));
  assert.equal(await superusers(), 'postgres');
  await place.query('ALTER DATABASE app RESET search_path', 'postgres');
});

test('SQL that an editor of Windows has saved is read as any other', async () => {
  const sql = '\\restrict a1\nCREATE TABLE item (name text);\nCOPY item FROM stdin;\none\ntwo\n\\.\n\\unrestrict a1\n';
  for (const written of [sql.replaceAll('\n', '\r\n'), `\uFEFF${sql}`, `\uFEFF${sql.replaceAll('\n', '\r\n')}`]) {
    assertDone(await place.exec(importing, { input: pieces(Buffer.from(written)) }));
    assert.equal(await place.query("SELECT string_agg(name, ',' ORDER BY name) FROM item"), 'one,two');
  }
});

test('a dump that finds nothing to write says that it is at it', async () => {
  await asApp('CREATE TABLE item ()');
  // In the place of pg_dump: a table whose rows are dead is read for as long.
  const reads = "#!/bin/sh\nexec psql -qtAc 'SELECT count(*) FROM pg_sleep(17)'\n";
  const shim = `mkdir -p /tmp/shim; printf '%s' "$1" >/tmp/shim/pg_dump; chmod 755 /tmp/shim/pg_dump; shift; PATH=/tmp/shim:$PATH exec "$@"`;
  const { code, stdout, stderr } = await place.exec(['sh', '-c', shim, 'sh', reads, ...dump]);
  assert.deepEqual([code, stdout.toString(), stderr], [0, '1\n', '\r']);
});
