/** A PostgreSQL of two members goes back to a moment, by what was collected of its log; also over a switchover. */
import { waitFor } from '@flynn/kit/retry';
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { Kept, copyOf, history, moment, run } from './history-fixture.ts';
import type { Header } from './history-fixture.ts';
import { startMembers } from './members-fixture.ts';
import type { PostgresMembers } from './members-fixture.ts';
import { postgres } from './postgres.ts';

let place: PostgresMembers;
before(async () => {
  place = await startMembers({ count: 2 });
});
after(async () => {
  await place?.[Symbol.asyncDispose]();
});

const rows = () => place.query("SELECT string_agg(name, ' ' ORDER BY name) FROM kept");
const write = (name: string) => place.query(`INSERT INTO kept VALUES ('${name}')`);

test('what was dropped comes back as it was at any moment since, also over a switchover; later it is as it is', async () => {
  const kept = new Kept(place);
  await place.query('CREATE TABLE kept (name text); ALTER TABLE kept OWNER TO app; CREATE UNLOGGED TABLE lost (n int)');
  await kept.begin();
  await write('one');
  const one = await moment(place);
  await write('two');
  await kept.collectAll();
  // The server itself notes something now and then.
  const isQuiet = async () => {
    const { from, to } = await kept.collect();
    return from === to;
  };
  await waitFor(isQuiet, { what: 'nothing to collect of a database that is not written to', deadlineMs: 60_000 });

  await place.copied();
  const moved = await place.exec(postgres.commands.switchover);
  assert.equal(moved.code, 0, moved.stderr);
  await place.copied();
  await write('three');
  const three = await moment(place);
  await place.query('DROP TABLE kept');
  const dropped = await moment(place);
  const ahead = copyOf(place, kept);
  const { left = 0 } = (await run(place, history.collect(kept.at))).header as Header;
  await kept.collectAll();
  assert.equal(kept.at?.timeline, 2);
  // The former primary had written more than the other has, and that was collected.
  if (ahead.at !== undefined) ahead.at.lsn = left + 100;
  await ahead.collectAll();
  await place.query('CREATE TABLE later ()');

  // Nothing changes where it fails.
  const cut = await kept.recover(three, { cutBytes: 4 });
  assert.match(cut.stderr, /ended before its end/);
  const tight = await kept.recover(three, { roomBytes: 2 ** 60 });
  assert.match(tight.stderr, /MiB are free/);
  assert.equal(await place.query("SELECT to_regclass('later')"), 'later');

  for (const [by, at, content] of [
    [ahead, three, 'one three two'],
    [kept, one, 'one'],
    [kept, three, 'one three two'],
  ] as const) {
    const ended = await by.recover(at);
    assert.equal(ended.code, 0, ended.stderr);
    assert.equal(await rows(), content);
    assert.equal(await place.query("SELECT to_regclass('later')"), '');
  }
  assert.equal(await place.query("SELECT relowner::regrole FROM pg_class WHERE relname = 'kept'"), 'app');
  // After the last commit.
  const end = await kept.recover(dropped);
  assert.equal(end.code, 0, end.stderr);
  assert.equal(await place.query("SELECT to_regclass('kept')"), '');
  const remains = await place.exec(['sh', '-c', 'ls /data; pgrep -fc /data/recovery/data || true']);
  assert.doesNotMatch(remains.stdout.toString(), /recovery$/m);
});

test('what is not collected does not fill the disk: there is a gap, which is told, and it begins anew', async () => {
  const kept = new Kept(place);
  await place.query("ALTER SYSTEM SET max_slot_wal_keep_size = '32MB'");
  await place.query('SELECT pg_reload_conf()');
  await kept.collect();
  // Patroni keeps 128 MB in any case.
  for (let segment = 0; segment < 12; segment += 1) {
    await place.query("SELECT pg_switch_wal() FROM pg_logical_emit_message(true, 'x', 'y')");
  }
  await place.query('CHECKPOINT');
  const { gap } = await kept.collect();
  assert.match(gap ?? '', /was not collected in time, and is gone/);
  await place.query('ALTER SYSTEM RESET max_slot_wal_keep_size');
  await place.query('SELECT pg_reload_conf()');
  kept.at = undefined;
  await place.query('CREATE TABLE anew ()');
  await kept.begin();
  const anew = await moment(place);
  await place.query('DROP TABLE anew');
  await kept.collectAll();
  const ended = await kept.recover(anew);
  assert.equal(ended.code, 0, ended.stderr);
  assert.equal(await place.query("SELECT to_regclass('anew')"), 'anew');
});

test('a log of which something is missing, or cannot be read, puts nothing back; many tables are no trouble', async () => {
  const kept = new Kept(place);
  await place.query(
    "DO $$ BEGIN FOR n IN 1..5000 LOOP EXECUTE 'CREATE TABLE many_' || n || ' (n int)'; END LOOP; END $$",
  );
  await kept.begin();
  for (const name of ['first', 'second', 'third']) {
    await place.query(`CREATE TABLE ${name} AS SELECT repeat(md5(n::text), 20) FROM generate_series(1, 5000) AS n`);
    await kept.collectAll();
  }
  const then = await moment(place);
  await kept.collectAll();
  await place.query('CREATE TABLE untouched ()');
  const without = (change: (log: Buffer[]) => Buffer[]): Kept => {
    const other = copyOf(place, kept);
    other.log = change(other.log);
    return other;
  };
  const large = kept.log.findLastIndex((one) => one.length > 100_000);
  const hole = await without((log) => log.toSpliced(large, 1)).recover(then);
  assert.match(hole.stderr, /a part of the log is missing/);
  const short = await without((log) => log.slice(0, -1)).recover(then);
  assert.match(short.stderr, /a part of the log is missing: it ends at/);
  const spoilt = await without((log) => log.with(large, spoil(log[large] ?? Buffer.alloc(0)))).recover(then);
  assert.match(spoilt.stderr, /its log could be read up to \S+ alone, and goes on to/);
  assert.equal(await place.query("SELECT to_regclass('untouched')"), 'untouched');
  const ended = await kept.recover(then);
  assert.equal(ended.code, 0, ended.stderr);
  assert.equal(
    await place.query("SELECT to_regclass('third'), to_regclass('untouched'), to_regclass('many_5000')"),
    'third||many_5000',
  );
});

/** In the middle of it there are zeros. */
function spoil(piece: Buffer): Buffer {
  const content = zstdDecompressSync(piece);
  const at = Math.floor(content.length / 2);
  // Lines that say what follows are as they were.
  const from = content.subarray(at - 4_096, at).includes('wal ') ? at + 8_192 : at;
  return zstdCompressSync(content.fill(0, from, from + 1_000));
}
