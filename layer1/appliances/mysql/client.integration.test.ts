/** What is done with what is in a MariaDB, by its programs: nothing of it is ever half there. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import type { Ended } from '../members-fixture.ts';
import { type MysqlMembers, appLogin, startMembers } from './members-fixture.ts';
import { mysql } from './mysql.ts';

function assertDone(ended: Ended): string {
  assert.equal(ended.code, 0, ended.stderr);
  return ended.stdout.toString();
}

/** As the controller sends it. */
const inPieces = (data: Buffer): Buffer => Buffer.concat([Buffer.from(`${data.length}\n`), data, Buffer.from('0\n')]);

const things = `
CREATE TABLE a (n INT PRIMARY KEY AUTO_INCREMENT, t VARCHAR(20));
CREATE TABLE b (n INT, FOREIGN KEY (n) REFERENCES a (n));
INSERT INTO a VALUES (1, 'x'), (2, 'ü');
INSERT INTO b VALUES (1);
CREATE VIEW v AS SELECT t FROM a;
CREATE TRIGGER tr BEFORE INSERT ON a FOR EACH ROW SET NEW.t = UPPER(NEW.t);
CREATE FUNCTION f() RETURNS INT DETERMINISTIC RETURN 7;
CREATE VIEW above AS SELECT v.t, (SELECT COUNT(*) FROM information_schema.engines) > 0 AS many FROM v;
SET SESSION sql_mode='ANSI_QUOTES', collation_connection='latin1_swedish_ci';
CREATE FUNCTION g() RETURNS TEXT DETERMINISTIC RETURN 'DEFINER=a@b';
`;

/** As mysqldump of MySQL 8 writes it with --databases. */
const foreign = `
CREATE DATABASE /*!32312 IF NOT EXISTS*/ \`wp\`;
USE \`wp\`;
SET @@SESSION.SQL_LOG_BIN= 0;
SET SQL_MODE='NO_AUTO_VALUE_ON_ZERO';
CREATE TABLE \`p\` (\`id\` bigint NOT NULL, PRIMARY KEY (\`id\`)) ENGINE=MyISAM DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
INSERT INTO \`p\` VALUES (1);
/*!50001 CREATE ALGORITHM=UNDEFINED */
/*!50013 DEFINER=\`root\`@\`localhost\` SQL SECURITY DEFINER */
/*!50001 VIEW \`pv\` AS select \`p\`.\`id\` AS \`id\` from \`p\` */;
DELIMITER ;;
CREATE DEFINER=\`root\`@\`localhost\` PROCEDURE \`pp\`()
BEGIN SELECT 5; END ;;
DELIMITER ;
`;

/** A program that is ended while it reads, or where there are tables and no views: who leads takes that away, or makes those. */
async function assertFinishes(place: MysqlMembers): Promise<void> {
  const programs = '/usr/lib/flynn/mysql';
  const cut = `import os, sys; sys.path.insert(0, '${programs}'); import reading, restoring
make = lambda *_: os._exit(9)
restoring.objects.make = make
restoring.restore('127.0.0.1', 'super', reading.plain(sys.stdin.buffer), is_own=False)`;
  for (const [at, views] of [
    ['restoring.objects.make = make', 'w'],
    ["restoring.accounts.disconnect = lambda *_: (restoring.objects.drop(_[0], 'app'), make())", 'v'],
    ['restoring.replace = make', 'v'],
  ] as const) {
    const program = cut.replace('restoring.objects.make = make', at);
    const input = Buffer.from('CREATE TABLE c (n INT); INSERT INTO c VALUES (4);\nCREATE VIEW w AS SELECT n FROM c;\n');
    assertDone(await place.askAs(appLogin, 'DROP VIEW IF EXISTS w; CREATE OR REPLACE VIEW v AS SELECT 1'));
    const ended = await place.exec(['python3', '-c', program], { input });
    assert.equal(ended.code, 9, ended.stderr);
    const hasViews = async () =>
      (await place.askAs(appLogin, "SHOW FULL TABLES WHERE table_type = 'VIEW'")).stdout.toString().startsWith(views);
    await waitFor(hasViews, { what: `the view ${views}`, deadlineMs: 60_000, intervalMs: 200 });
    const left = async () => (await place.ask("SHOW DATABASES LIKE 'app%'")) === 'app';
    await waitFor(left, { what: 'nothing beside it', deadlineMs: 60_000, intervalMs: 200 });
  }
}

async function assertRestores(place: MysqlMembers): Promise<void> {
  assertDone(await place.askAs(appLogin, things));
  const dumped = await place.exec(mysql.commands.dump);
  assertDone(dumped);
  assertDone(
    await place.askAs(
      appLogin,
      "DELETE FROM b; DROP VIEW v, above; DROP FUNCTION f; DROP FUNCTION g; CREATE TABLE more (n INT); INSERT INTO a VALUES (3, 'q')",
    ),
  );
  const { stdout: dump } = dumped;
  for (const [command, input, says] of [
    [mysql.commands.import, inPieces(dump).subarray(0, -2), /^what was to be restored ended before its end/],
    [mysql.commands.restore, dump.subarray(0, -20), /^what was to be restored ended before its end/],
    [mysql.commands.import, inPieces(Buffer.from('CREATE TABLE q (n INT);\nnonsense;\n')), /nothing was replaced/],
    [
      mysql.commands.import,
      inPieces(Buffer.from('CREATE TABLE q (n INT);\n\\! touch /tmp/x\n')),
      /nothing was replaced/,
    ],
    [mysql.commands.import, inPieces(Buffer.from('DROP TABLE app.a;\n')), /DROP command denied.*nothing was replaced/s],
  ] as const) {
    const refused = await place.exec(command, { input });
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, says);
    assert.equal(assertDone(await place.askAs(appLogin, 'SHOW TABLES')), 'a\nb\nmore\n');
  }
  const said = JSON.parse(assertDone(await place.exec(mysql.commands.import, { input: inPieces(dump) }))) as unknown;
  assert.deepEqual(said, { before: { tables: 3, sizeBytes: 65_536 }, after: { tables: 2, sizeBytes: 49_152 } });
  const then = "INSERT INTO a (t) VALUES ('q'); SELECT * FROM v; SELECT f(); SELECT * FROM b";
  assert.equal(assertDone(await place.askAs(appLogin, then)), 'x\nü\nQ\n7\n1\n');
  assert.equal(
    assertDone(await place.askAs(appLogin, 'SELECT g(); SELECT many FROM above LIMIT 1')),
    'DEFINER=a@b\n1\n',
  );
  const made =
    'SELECT definer, sql_mode, collation_connection FROM information_schema.routines WHERE routine_name = "g"';
  assert.equal(await place.ask(made), 'app@%\tANSI_QUOTES\tlatin1_swedish_ci');
  assertDone(await place.exec(mysql.commands.restore, { input: dump }));
  assert.equal(assertDone(await place.askAs(appLogin, 'SELECT * FROM v')), 'x\nü\n');
  await assertFinishes(place);
  assertDone(await place.exec(mysql.commands.import, { input: inPieces(Buffer.from(foreign)) }));
  assert.equal(assertDone(await place.askAs(appLogin, 'SHOW TABLES; SELECT * FROM pv; CALL pp()')), 'p\npv\n1\n5\n');
}

test('what is in it is dumped, and put back in the place of all that is there, or not at all; apps log in as they are let in', async () => {
  await using place = await startMembers({ count: 1 });
  await assertRestores(place);

  const tell = async ({ command, input }: ReturnType<typeof mysql.logins.admit>) =>
    assertDone(await place.exec(command, { input: Buffer.from(input) }));
  const next = { name: 'app_1', password: 'other' };
  const third = { name: 'app_2', password: 'third' };
  assert.notEqual((await place.askAs(next, 'SELECT 1')).code, 0);
  await tell(mysql.logins.letIn([next]));
  const made = 'CREATE VIEW mine AS SELECT 1 AS one; CREATE PROCEDURE proc() SELECT 2';
  assertDone(await place.askAs(next, made));
  const sleeping = place.askAs(appLogin, 'SELECT SLEEP(300)');
  const isAsleep = async () =>
    (await place.ask('SELECT info FROM information_schema.processlist')).includes('SLEEP(300)');
  await waitFor(isAsleep, { what: 'it to sleep', deadlineMs: 30_000, intervalMs: 100 });
  await tell(mysql.logins.admit([third]));
  // Its connection has ended.
  assert.notEqual((await sleeping).code, 0);
  for (const former of [appLogin, next]) assert.notEqual((await place.askAs(former, 'SELECT 1')).code, 0);
  // What somebody made who does not log in any more goes on, and is everybody's.
  assert.equal(assertDone(await place.askAs(third, 'SELECT * FROM mine; CALL proc()')), '1\n2\n');
  assertDone(
    await place.askAs(third, 'CREATE OR REPLACE VIEW mine AS SELECT 3 AS one; DROP PROCEDURE proc; DROP TABLE p'),
  );
  const nobody = await place.exec(mysql.logins.admit([]).command);
  assert.deepEqual([nobody.code, nobody.stderr], [1, 'nobody was to be admitted\n']);

  for (const statement of [
    "SELECT 1 INTO OUTFILE '/tmp/x'",
    'SET GLOBAL read_only=1',
    'CREATE DATABASE z',
    'SELECT * FROM mysql.global_priv',
    'SELECT * FROM flynn.lead',
    'CREATE USER x',
    "INSTALL SONAME 'ha_archive'",
    "CREATE DEFINER='flynn'@'%' VIEW e AS SELECT 1",
    'SET SESSION sql_log_bin=0',
    'SET SESSION server_id=3',
    'SET SESSION gtid_domain_id=3',
    'SET SESSION gtid_seq_no=99999999',
    'STOP SLAVE',
    'RESET MASTER',
    'FLUSH TABLES WITH READ LOCK',
  ]) {
    assert.match((await place.askAs(third, statement)).stderr, /denied/, statement);
  }
});
