/** A PostgreSQL of two members, and what people do with it by the programs of its image. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { type Ended, keyspace } from '../members-fixture.ts';
import { pieces, type PostgresMembers, startMembers } from './members-fixture.ts';
import { postgres } from './postgres.ts';

const { dump, restore, import: importing, switchover } = postgres.commands;

let place: PostgresMembers;
before(async () => {
  place = await startMembers({ count: 2 });
});
after(async () => {
  await place?.[Symbol.asyncDispose]();
});

const importAll = (content: Uint8Array | string) => place.exec(importing, { input: pieces(Buffer.from(content)) });

/** All of what a database is to people: rows, owners, comments, where sequences are. */
const contentOf = (database?: string) =>
  place.query(
    `SELECT string_agg(concat_ws(' ', relname, relkind, relowner::regrole, obj_description(oid, 'pg_class')), E'\\n' ORDER BY relname)
       FROM pg_class WHERE relnamespace IN ('public'::regnamespace) AND relname NOT LIKE 'pg_stat%'
     UNION ALL SELECT concat_ws(' ', count(*), sum(hashtext(t::text))) FROM item t`,
    database,
  );

async function fill(database = 'app', owner = 'app'): Promise<void> {
  await place.query(
    `DROP TABLE IF EXISTS item, more;
     CREATE TABLE item (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL);
     COMMENT ON TABLE item IS 'what there is to sell';
     CREATE INDEX item_name ON item (name);
     INSERT INTO item (name) SELECT md5(g::text) || E'\\n\\\\restrict ' FROM generate_series(1, 20000) g;
     ALTER TABLE item OWNER TO ${owner}`,
    database,
  );
}

const databases = () =>
  place.query("SELECT string_agg(datname, ',' ORDER BY datname) FROM pg_database WHERE NOT datistemplate");

function assertDone({ code, stderr }: Ended): void {
  assert.equal(code, 0, stderr);
}

test('what was dumped and is imported is what was there, and what took its place meanwhile is gone', async () => {
  await fill();
  await place.query('SET ROLE app; CREATE EXTENSION IF NOT EXISTS pgcrypto');
  await place.query('CREATE EXTENSION IF NOT EXISTS pageinspect');
  const was = await contentOf();
  const dumped = await place.exec(dump);
  assertDone(dumped);
  await place.query("DELETE FROM item WHERE id > 5; CREATE TABLE more (); UPDATE item SET name = 'x'");
  const imported = await importAll(dumped.stdout);
  assertDone(imported);
  const { before: had, after: has } = JSON.parse(imported.stdout.toString()) as Record<string, { tables: number }>;
  assert.deepEqual([had?.tables, has?.tables], [2, 1]);
  assert.equal(await contentOf(), was);
  assert.equal(
    await place.query('SELECT extname FROM pg_extension ORDER BY 1'),
    'pageinspect\npg_stat_statements\npgcrypto\nplpgsql',
  );
  assert.equal(await databases(), 'app,postgres');
  await place.query("SET ROLE app; INSERT INTO item (name) VALUES ('next')");

  await place.query('DELETE FROM item');
  assertDone(await place.exec(restore, { input: dumped.stdout }));
  assert.equal(await contentOf(), was, 'as the platform itself restores it');
});

/** All that is set on the database, which is in no table of it. */
const setOnDatabase = () =>
  place.query(
    `SELECT concat_ws(' ', datconnlimit, shobj_description(oid, 'pg_database')) FROM pg_database WHERE datname = 'app'
     UNION ALL SELECT * FROM (SELECT concat_ws(' ', grantee::regrole, privilege_type, is_grantable)
       FROM pg_database, aclexplode(datacl) WHERE datname = 'app' ORDER BY 1) granted
     UNION ALL SELECT * FROM (SELECT concat_ws(' ', setrole::regrole, setting) FROM pg_db_role_setting, unnest(setconfig) setting
       WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = 'app') ORDER BY 1) settings`,
    'postgres',
  );

test('what is set on the database itself stays when what is in it is replaced', async () => {
  await fill();
  const { stdout } = await place.exec(dump);
  await place.query(
    `CREATE ROLE "repor't ing"; CREATE ROLE auditor;
     GRANT CONNECT ON DATABASE app TO "repor't ing" WITH GRANT OPTION;
     GRANT TEMPORARY ON DATABASE app TO auditor;
     REVOKE TEMPORARY ON DATABASE app FROM PUBLIC;
     ALTER DATABASE app CONNECTION LIMIT 77;
     COMMENT ON DATABASE app IS 'the shop''s';
     ALTER DATABASE app SET search_path = "$user", "a, ""b", public;
     ALTER DATABASE app SET statement_timeout = '1h';
     ALTER DATABASE app SET "shop.Name" = 'it''s \\ a "shop"';
     ALTER DATABASE app SET temp_tablespaces = '';
     ALTER ROLE "repor't ing" IN DATABASE app SET role = auditor;
     ALTER ROLE auditor IN DATABASE app SET "DateStyle" = 'SQL, DMY'`,
    'postgres',
  );
  // As whoever is asked to take what there is at the moment has it stored: as it is, and no list of words.
  const loaded = 'x;ALTER/**/ROLE/**/app/**/SUPERUSER;';
  await place.query(
    `SELECT set_config('local_preload_libraries', '${loaded}', false);
     ALTER ROLE auditor IN DATABASE app SET local_preload_libraries FROM CURRENT`,
    'postgres',
  );
  const was = (await setOnDatabase()).replace(loaded, `"${loaded}"`);
  assert.match(was, /repor't ing" CONNECT t[^]*search_path="\$user", "a, ""b", public/);
  assertDone(await place.exec(restore, { input: stdout }));
  assert.equal(await setOnDatabase(), was);
  assertDone(await importAll(stdout));
  assert.equal(await place.query("SELECT rolsuper FROM pg_roles WHERE rolname = 'app'"), 'f');
  assert.equal(await setOnDatabase(), was);
  await place.query(
    `ALTER DATABASE app RESET ALL; ALTER DATABASE app CONNECTION LIMIT -1; COMMENT ON DATABASE app IS NULL;
     GRANT TEMPORARY ON DATABASE app TO PUBLIC; DROP OWNED BY "repor't ing", auditor; DROP ROLE "repor't ing", auditor`,
  );
});

const named = ['reporting', 'auditor; "$$ \'x', 'rule maker', 'TO', 'günther', 'keeper'];
const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`;

test('what belongs to roles that are not there, or is for them, comes back, and they are made with no more than that', async () => {
  await fill();
  const [reader = '', auditor = '', maker = '', owner = '', writer = '', keeper = ''] = named.map(quoted);
  await place.query(
    `${named.map((name) => `CREATE ROLE ${quoted(name)} LOGIN CREATEDB;`).join('')}
     GRANT SELECT ON item TO ${reader} WITH GRANT OPTION; GRANT UPDATE (name) ON item TO ${auditor};
     SET ROLE ${reader}; GRANT SELECT ON item TO ${auditor}; RESET ROLE;
     CREATE POLICY "for ""TO"" all" ON item FOR SELECT TO ${reader}, ${maker} USING (name <> ' TO nobody ' OR id > 0);
     CREATE TABLE owned (); ALTER TABLE owned OWNER TO ${owner};
     ALTER DEFAULT PRIVILEGES FOR ROLE ${owner} GRANT SELECT ON TABLES TO ${writer};
     SELECT lo_create(4711); GRANT SELECT ON LARGE OBJECT 4711 TO ${writer};
     SELECT lo_create(4712); ALTER LARGE OBJECT 4712 OWNER TO ${keeper};
     COMMENT ON TABLE owned IS 'no; GRANT SELECT ON item TO nobody; "';
     CREATE FUNCTION nothing() RETURNS text LANGUAGE sql AS $f$ SELECT 1; GRANT SELECT ON item TO nobody; SELECT 'x' $f$`,
  );
  const granted = () =>
    place.query(
      `SELECT concat_ws(' ', relname, relowner::regrole, relacl) FROM pg_class WHERE relname IN ('item', 'owned')
       UNION ALL SELECT attacl::text FROM pg_attribute WHERE attacl IS NOT NULL AND attrelid = 'item'::regclass
       UNION ALL SELECT polroles::regrole[]::text FROM pg_policy
       UNION ALL SELECT string_agg(concat_ws(' ', oid, lomowner::regrole, lomacl), ',' ORDER BY oid) FROM pg_largeobject_metadata
       UNION ALL SELECT concat_ws(' ', defaclrole::regrole, ARRAY(SELECT unnest(defaclacl)::text ORDER BY 1)) FROM pg_default_acl`,
    );
  const was = await granted();
  const { stdout } = await place.exec(dump);
  // As on a server that never had them.
  const leave = named.map((name) => `DROP OWNED BY ${quoted(name)};`).join('');
  const drop = `${leave} DROP ROLE ${named.map(quoted).join(',')}`;
  await place.query(drop);
  const restored = await place.exec(restore, { input: stdout });
  assertDone(restored);
  assert.equal(await granted(), was);
  for (const name of named) assert.ok(restored.stderr.includes(`the role ${name} was not there`), restored.stderr);
  assert.equal(
    await place.query(
      `SELECT count(*) FROM pg_roles WHERE oid >= 16384 AND (rolname ~ '^app' OR rolname = 'replication')
         OR rolsuper OR rolcanlogin AND rolname <> 'postgres' OR rolcreatedb OR rolcreaterole OR rolbypassrls`,
    ),
    await place.query("SELECT count(*) FROM pg_roles WHERE rolname ~ '^app' OR rolname IN ('replication', 'postgres')"),
  );
  assert.equal(await place.query("SELECT count(*) FROM pg_roles WHERE rolname = 'nobody'"), '0');
  const again = await place.exec(restore, { input: stdout });
  assertDone(again);
  assert.doesNotMatch(again.stderr, /was not there/);
  await place.query(`DROP FUNCTION nothing(); SELECT lo_unlink(4711); ${drop}`);
});

test('one that is cut, at whatever place, leaves what was there and nothing else', async () => {
  await fill();
  const was = await contentOf();
  const { stdout } = await place.exec(dump);
  const sql = Buffer.from('CREATE TABLE half ();\n'.padEnd(2_000, ' '));
  const whole = pieces(stdout);
  const cut = [
    whole.subarray(0, 3),
    whole.subarray(0, whole.length / 2),
    whole.subarray(0, -2),
    pieces(sql).subarray(0, -2),
  ];
  for (const input of cut) {
    const { code, stderr } = await place.exec(importing, { input });
    assert.notEqual(code, 0);
    assert.match(stderr, /ended before its end/);
    assert.equal(await contentOf(), was);
    assert.equal(await databases(), 'app,postgres');
  }
  assert.notEqual((await place.exec(restore, { input: stdout.subarray(0, stdout.length / 2) })).code, 0);
  assert.equal(await contentOf(), was);
});

test('what was left by one that was killed between its last steps is mended by the next', async () => {
  await fill();
  const was = await contentOf();
  const { stdout } = await place.exec(dump);
  await place.query('CREATE DATABASE app_before', 'postgres');
  await place.query('ALTER DATABASE app WITH ALLOW_CONNECTIONS false', 'postgres');
  await place.query('CREATE DATABASE app_restoring', 'postgres');
  assertDone(await importAll(stdout));
  assert.equal(await databases(), 'app,postgres');
  assert.equal(await contentOf(), was);
});

test('who has begun to lead ends what was left before, and not what has begun since', async () => {
  const mend = (since: number) => place.exec(['/usr/lib/flynn/flynn-postgres-client', 'mend', String(since)]);
  const now = Math.floor(Date.now() / 1_000);
  await place.query('CREATE DATABASE app_restoring', 'postgres');
  assertDone(await mend(now - 600));
  assert.equal(await databases(), 'app,app_restoring,postgres');
  assertDone(await mend(now + 600));
  assert.equal(await databases(), 'app,postgres');
});

test('what was left by one whose host died goes with a dump, hours later: it may be under way until then', async () => {
  const { members } = await place.copied();
  const primary = members.find(({ isPrimary }) => isPrimary)?.address;
  const member = (await place.addressOf(1)) === primary ? 1 : 2;
  await place.query('CREATE DATABASE app_restoring', 'postgres');
  assertDone(await place.exec(dump));
  assert.equal(await databases(), 'app,app_restoring,postgres');
  const oid = await place.query("SELECT oid FROM pg_database WHERE datname = 'app_restoring'");
  const file = `/data/pgdata/base/${oid}/PG_VERSION`;
  assertDone(await place.exec(['touch', '--date', '7 hours ago', file], { member }));
  assertDone(await place.exec(dump));
  assert.equal(await databases(), 'app,postgres');
});

/** A restore with that in the place of its psql where this is told to take the place; `$text` is what it is told. */
function restoreWith(atLast: string, input: Uint8Array): Promise<Ended> {
  const psql = `[ ! -e /tmp/cut ] || return 2; case " $* " in *" -c "*) command psql "$@"; return;; esac
    text=$(cat); case "$text" in *"RENAME TO app_before"*) ${atLast};; *) printf "%s\n" "$text" | command psql "$@";; esac`;
  // Nobody waits for a primary that does not come back.
  const shims = [`BASH_FUNC_psql%%=() { ${psql}\n}`, 'BASH_FUNC_sleep%%=() { SECONDS=$((SECONDS + 60)); }'];
  return place.exec(['env', ...shims, ...restore], { input });
}
const runIt = 'printf "%s\n" "$text" | command psql "$@"';
const breakOff = 'echo "server closed the connection unexpectedly" >&2; return 2';

test('one whose connection breaks once it has taken its place is told as done, and as not known where nobody can be asked', async () => {
  await fill();
  const was = await contentOf();
  const { stdout } = await place.exec(dump);
  await place.query('DELETE FROM item');
  assertDone(await restoreWith(`${runIt}; ${breakOff}`, stdout));
  assert.equal(await contentOf(), was);
  assert.equal(await databases(), 'app,postgres');

  await place.query('DELETE FROM item');
  const changed = await contentOf();
  const failed = await restoreWith(breakOff, stdout);
  assert.equal(failed.code, 1);
  assert.match(failed.stderr, /closed the connection/);
  assert.equal(await contentOf(), changed);

  const unknown = await restoreWith(`${runIt}; touch /tmp/cut; ${breakOff}`, stdout);
  assertDone(await place.exec(['rm', '/tmp/cut']));
  assert.deepEqual([unknown.code, await databases()], [75, 'app,app_before,postgres']);
  assert.match(unknown.stderr, /whether all was replaced is not known/);
  assert.equal(await contentOf(), was);
  assert.match((await place.status()).problem ?? '', /what a restore has replaced takes \d+ MiB still/);
  assertDone(await place.exec(dump));
  assert.deepEqual([await databases(), (await place.status()).problem], ['app,postgres', null]);
});

test('one that another has overtaken takes no place, and leaves what that one makes', async () => {
  await fill();
  const was = await contentOf();
  const { stdout } = await place.exec(dump);
  const overtake = `for each in "DROP DATABASE app_restoring" "CREATE DATABASE app_restoring"; do command psql -qd postgres -c "$each"; done`;
  const { code, stderr } = await restoreWith(`${overtake}; ${runIt}`, stdout);
  assert.equal(code, 1);
  assert.match(stderr, /another restore has begun: this one was given up/);
  assert.equal(await databases(), 'app,app_restoring,postgres');
  assert.equal(await contentOf(), was);
  // As the server that one was told of leaves it: it serves again with the next dump.
  await place.query('ALTER DATABASE app WITH ALLOW_CONNECTIONS false', 'postgres');
  assertDone(await place.exec(dump));
  assert.equal(await contentOf(), was);
  assertDone(await place.exec(restore, { input: stdout }));
  assert.equal(await databases(), 'app,postgres');
});

test('one that cannot make its database, because an import has begun meanwhile, leaves that one to itself', async () => {
  await fill();
  const was = await contentOf();
  const { stdout } = await place.exec(dump);
  // Another makes its own between what this has cleared up and what it is about to make.
  const psql = `case "$*" in *"CREATE DATABASE app_restoring"*) command psql -qd postgres -c "CREATE DATABASE app_restoring";; esac
    command psql "$@"`;
  const { code, stderr } = await place.exec(['env', `BASH_FUNC_psql%%=() { ${psql}\n}`, ...restore], { input: stdout });
  assert.notEqual(code, 0);
  assert.match(stderr, /database "app_restoring" already exists/);
  assert.equal(await databases(), 'app,app_restoring,postgres');
  assert.equal(await contentOf(), was);
  // What it has made itself goes, wherever it fails.
  const cut = `case "$*" in *"REVOKE CONNECT"*) set -- "\${@/REVOKE CONNECT/NONE}";; esac; command psql "$@"`;
  const failed = await place.exec(['env', `BASH_FUNC_psql%%=() { ${cut}\n}`, ...restore], { input: stdout });
  assert.notEqual(failed.code, 0);
  assert.match(failed.stderr, /syntax error at or near "NONE"/);
  assert.equal(await databases(), 'app,postgres');
});

test('what belongs to superusers alone comes back as the superuser’s where its owner is none here', async () => {
  await fill();
  await place.query(
    `CREATE ROLE "b'ob" SUPERUSER; CREATE ROLE chief SUPERUSER;
     CREATE FUNCTION note() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END';
     CREATE EVENT TRIGGER "the ""first" ON sql_drop EXECUTE FUNCTION note(); ALTER EVENT TRIGGER "the ""first" OWNER TO "b'ob";
     COMMENT ON EVENT TRIGGER "the ""first" IS 'a note';
     CREATE EVENT TRIGGER second ON sql_drop EXECUTE FUNCTION note(); ALTER EVENT TRIGGER second OWNER TO chief;
     CREATE FOREIGN DATA WRAPPER wrapper; GRANT USAGE ON FOREIGN DATA WRAPPER wrapper TO app;
     ALTER FOREIGN DATA WRAPPER wrapper OWNER TO "b'ob"; CREATE SERVER far FOREIGN DATA WRAPPER wrapper;
     ALTER SERVER far OWNER TO app`,
  );
  const owned = () =>
    place.query(
      `SELECT concat_ws(' ', evtname, evtowner::regrole, obj_description(oid, 'pg_event_trigger')) FROM pg_event_trigger
       UNION ALL SELECT concat_ws(' ', fdwname, fdwowner::regrole, fdwacl) FROM pg_foreign_data_wrapper
       UNION ALL SELECT concat_ws(' ', srvname, srvowner::regrole) FROM pg_foreign_server ORDER BY 1`,
    );
  const { stdout } = await place.exec(dump);
  const was = await contentOf();
  await place.query(
    `DROP EVENT TRIGGER "the ""first"; DROP EVENT TRIGGER second; DROP FOREIGN DATA WRAPPER wrapper CASCADE;
     DROP ROLE "b'ob"; DELETE FROM item`,
  );
  const restored = await place.exec(restore, { input: stdout });
  assertDone(restored);
  assert.equal(await contentOf(), was);
  assert.equal(
    await owned(),
    'far app\nsecond chief\nthe "first postgres a note\nwrapper postgres {postgres=U/postgres,app=U/postgres}',
  );
  assert.match(
    restored.stderr,
    /the event trigger the "first belonged to b'ob, who is no superuser here: it belongs to postgres now/,
  );
  assert.match(restored.stderr, /the foreign data wrapper wrapper belonged to b'ob/);
  assert.equal(await place.query(`SELECT count(*) FROM pg_roles WHERE rolname = 'b''ob'`), '0');
  await place.query('DROP FUNCTION note CASCADE; DROP FOREIGN DATA WRAPPER wrapper CASCADE; DROP ROLE chief');
});

test('an archive of somebody else’s database becomes the app’s, whoever owned it there', async () => {
  await place.query('CREATE ROLE bob', 'postgres');
  await place.query('CREATE DATABASE foreigner OWNER bob', 'postgres');
  await place.query('CREATE EXTENSION pg_stat_statements', 'foreigner');
  await fill('foreigner', 'bob');
  await place.query('GRANT SELECT ON item TO bob', 'foreigner');
  const own = (await contentOf('foreigner')).replaceAll(' bob', ' app');
  const superuser = 'postgres://postgres:super@127.0.0.1/foreigner';
  const dumpAs = (...more: string[]) => place.exec(['pg_dump', ...more, superuser]);
  for (const archive of [
    await dumpAs('--format', 'custom'),
    await dumpAs('--no-owner', '--no-acl', '--exclude-extension', '*'),
  ]) {
    assertDone(archive);
    await place.query('DROP TABLE IF EXISTS item');
    const imported = await importAll(archive.stdout);
    assertDone(imported);
    assert.equal(await contentOf(), own);
  }
  await place.query('DROP DATABASE foreigner', 'postgres');
});

test('a file does what the app may do, and nothing in the member it is read in', async () => {
  await fill();
  const was = await contentOf();
  const refused: [string, RegExp][] = [
    ['CREATE TABLE a ();\n\\! touch /tmp/found\n', /backslash commands are restricted/],
    ['\\o |touch /tmp/found\nSELECT 1;\n', /backslash commands are restricted/],
    ['\\i /tmp/patroni.yml\n', /backslash commands are restricted/],
    ["\\connect 'host=/tmp user=postgres dbname=postgres'\n", /backslash commands are restricted/],
    ['RESET ROLE;\nALTER ROLE app SUPERUSER;\n', /permission denied to alter role/],
    ["COPY (SELECT 1) TO PROGRAM 'touch /tmp/found';\n", /permission denied to COPY/],
    ['CREATE TABLE a (;\n', /syntax error/],
  ];
  for (const [sql, pattern] of refused) {
    const { code, stderr } = await importAll(sql);
    assert.notEqual(code, 0, sql);
    assert.match(stderr, pattern);
    assert.equal(await contentOf(), was);
  }
  assert.doesNotMatch((await place.exec(['ls', '/tmp'])).stdout.toString(), /found|import\./);
});

test('the members say how they are, and another is the primary once it was asked to be', async () => {
  const { members, database, problem } = await place.copied();
  assert.equal(members.length, 2);
  assert.ok(members.every(({ isPrimary, isSynchronous }) => isPrimary !== isSynchronous));
  assert.match(database?.version ?? '', /^17\.\d+$/);
  assert.ok(database !== null && database.sizeBytes > 1_000_000 && database.maxConnections === 100);
  assert.equal(problem, null);
  const addressOf = (isPrimary: boolean) => members.find((one) => one.isPrimary === isPrimary)?.address ?? '';
  const [former, next] = [addressOf(true), addressOf(false)];
  assert.match((await place.exec([...switchover, former])).stderr, /that member is the primary already/);
  assert.match((await place.exec([...switchover, '10.9.9.9'])).stderr, /no member is at 10\.9\.9\.9/);
  await place.query('CREATE TABLE moved (); ALTER TABLE moved OWNER TO app');
  const moved = await place.exec([...switchover, next]);
  assertDone(moved);
  assert.deepEqual(JSON.parse(moved.stdout.toString()), { from: former, to: next });
  await place.copied();
  assert.equal(await place.query("SELECT to_regclass('moved')"), 'moved');
  // Whichever Patroni takes: there is one.
  const back = await place.exec(switchover);
  assertDone(back);
  assert.deepEqual(JSON.parse(back.stdout.toString()), { from: next, to: former });
});

test('a primary that is stopped when its copy has only just begun hands over to it all the same', async () => {
  const { members } = await place.copied();
  const primary = members.find(({ isPrimary }) => isPrimary)?.address;
  const [leading, other] = (await place.addressOf(1)) === primary ? [1, 2] : [2, 1];
  await place.stop(other);
  await place.start(other);
  const address = await place.addressOf(other);
  const until = { deadlineMs: 60_000, intervalMs: 100 };
  const isUp = async () =>
    (await place.status()).members.some((one) => one.address === address && one.state === 'streaming');
  await waitFor(isUp, { what: 'the copy to run', ...until });
  await place.stop(leading);
  const hasTakenOver = async () =>
    (await place.status()).members.some((one) => one.address === address && one.isPrimary);
  await waitFor(hasTakenOver, { what: 'the copy to be the primary', ...until });
  await place.query("SET ROLE app; INSERT INTO item (name) VALUES ('after')");
  await place.start(leading);
  await place.copied();
});

test('a dump ends when the host of the primary is gone, and says so', async () => {
  const { members } = await place.copied();
  const primary = members.find(({ isPrimary }) => isPrimary)?.address;
  const [leading, other] = (await place.addressOf(1)) === primary ? [1, 2] : [2, 1];
  // It waits for this, and hears nothing from then on.
  const lock = "BEGIN; LOCK TABLE item; SELECT 'locked', pg_sleep(60)";
  const locking = place.exec(['psql', '--host', '/tmp', '--username', 'postgres', '--command', lock, 'app'], {
    member: leading,
  });
  const isLocked = async () =>
    (await place.query(
      "SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted AND relation = 'item'::regclass",
    )) !== '0';
  await waitFor(isLocked, { what: 'the table to be locked', deadlineMs: 30_000, intervalMs: 50 });
  const dumping = place.exec(dump, { member: other });
  const isWaiting = async () =>
    (await place.query("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'relation'")) === '1';
  await waitFor(isWaiting, { what: 'the dump to wait for the lock', deadlineMs: 30_000, intervalMs: 100 });
  await place.cutOff(leading);
  const { code, stderr } = await dumping;
  assert.notEqual(code, 0);
  assert.match(stderr, /timed out/i);
  await place.join(leading);
  await locking;
  await place.copied();
});

test('whoever becomes the primary has all go by its settings, and ends what a restore left that was cut with the one before', async () => {
  await place.copied();
  const patronictl = ['patronictl', '--config-file', '/tmp/patroni.yml'];
  const settings = async () => {
    const shown = await place.exec([...patronictl, 'show-config', keyspace.name]);
    assertDone(shown);
    return shown.stdout.toString();
  };
  assert.match(await settings(), /^ttl: 8$/m);
  const other = ['--set', 'ttl=20', '--set', 'retry_timeout=5', '--set', 'maximum_lag_on_failover=7'];
  assertDone(await place.exec([...patronictl, 'edit-config', '--quiet', '--force', ...other, keyspace.name]));
  assert.match(await settings(), /^ttl: 20$/m);
  await place.query('CREATE DATABASE app_before', 'postgres');
  await place.query('CREATE DATABASE app_restoring', 'postgres');
  await place.query('ALTER DATABASE app WITH ALLOW_CONNECTIONS false', 'postgres');
  assertDone(await place.exec(switchover));
  await place.copied();
  const until = { deadlineMs: 60_000, intervalMs: 200 };
  await waitFor(async () => /^ttl: 8$/m.test(await settings()), { what: 'the settings of the image', ...until });
  await waitFor(async () => (await databases()) === 'app,postgres', { what: 'the databases there are', ...until });
  assert.equal(await place.query('SELECT 1'), '1');
  // Patroni says so where its image lets it take no less.
  for (const member of [1, 2]) assert.doesNotMatch(await place.logOf(member), /ttl=\d+ can't be smaller/);
  assert.match(await settings(), /^maximum_lag_on_failover: 1048576\n[^]*^retry_timeout: 3$/m);
});
