/** Where there is too little room, what is brought to a moment is given up before the disk of the database is full. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { Kept, moment } from './history-fixture.ts';
import { startMembers } from './members-fixture.ts';
import type { PostgresMembers } from './members-fixture.ts';

const MiB = 1024 ** 2;

let place: PostgresMembers;
before(async () => {
  place = await startMembers({ count: 1, diskBytes: 700 * MiB });
});
after(async () => {
  await place?.[Symbol.asyncDispose]();
});

/**
 * Does the one once what was recovered is about to take the place, the other once the first has ended and the place may be taken:
 * until then somebody comments on the database, whose name nobody changes meanwhile.
 */
const onceDecided = (held: string, next = 'true'): string[] => [
  'timeout',
  '240',
  'bash',
  '-o',
  'pipefail',
  '-c',
  `{ echo 'BEGIN; COMMENT ON DATABASE app IS NULL;'
     until [ -e /data/recovery ]; do sleep 0.01; done
     until [ -L /data/recovery/decided ]; do [ -e /data/recovery ] || exit 3; sleep 0.01; done
     ${held}
   } | psql --no-psqlrc --quiet --host /tmp --username postgres postgres || exit
   ${next}`,
];

async function untilHeld(): Promise<void> {
  const locks = `SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = objid AND datname = 'app'
    WHERE classid = 'pg_database'::regclass AND mode = 'ShareUpdateExclusiveLock' AND granted`;
  const isHeld = async () => (await place.query(locks)) === '1';
  await waitFor(isHeld, { what: 'the comment on the database', deadlineMs: 60_000, intervalMs: 100 });
}

test('a disk that gets full once the place is taken undoes nothing, and what was put back is told to be there', async () => {
  const kept = new Kept(place);
  await place.query('CREATE TABLE large AS SELECT repeat(md5(n::text), 30) FROM generate_series(1, 60000) AS n');
  await kept.begin();
  const then = await moment(place);
  await place.query("DELETE FROM large WHERE ctid > '(10,0)'");
  await kept.collectAll();
  // While it takes the place, and takes its time for that, less than what stays free is free.
  const filling = place.exec(
    onceDecided(
      `fallocate -l $(($(df --output=avail -B1M /data | tail -1) - 30))M /data/filler || exit 4
       sleep 2`,
      `while [ -e /data/recovery ]; do sleep 0.02; done
       rm /data/filler`,
    ),
  );
  await untilHeld();
  const ended = await kept.recover(then, { roomBytes: 0 });
  assert.equal((await filling).code, 0, `the disk was not filled while it took the place: ${ended.stderr}`);
  assert.equal(ended.code, 0, ended.stderr);
  assert.equal(await place.query('SELECT count(*) FROM large'), '60000');
  assert.equal(await place.query("SELECT count(*) FROM pg_database WHERE datname LIKE 'app\\__%'"), '0');
  await place.query('DROP TABLE large');
});

test('told to end once the place is taken, it says what came of that', async () => {
  const kept = new Kept(place);
  await place.query('CREATE TABLE told AS SELECT n FROM generate_series(1, 1000) AS n');
  await kept.begin();
  const then = await moment(place);
  await place.query('DELETE FROM told');
  await kept.collectAll();
  const telling = place.exec(
    onceDecided(
      `told=$(pgrep -o -f 'flynn-postgres-recove[r]') && kill $told || exit 4
       until grep -q '^ShdPnd:[[:space:]]*0*$' /proc/$told/status; do sleep 0.01; done`,
    ),
  );
  await untilHeld();
  const ended = await kept.recover(then);
  assert.equal((await telling).code, 0, `it was not told to end while it took the place: ${ended.stderr}`);
  assert.equal(await place.query('SELECT count(*) FROM told'), '1000');
  assert.equal(ended.code, 0, ended.stderr);
  await place.query('DROP TABLE told');
});

test('a copy of little, and a log of much, are given up once a tenth of the disk is left; the database goes on', async () => {
  const kept = new Kept(place);
  await kept.begin();
  // Some 150 MB, and as much log.
  await place.query('CREATE TABLE large AS SELECT repeat(md5(n::text), 30) FROM generate_series(1, 150000) AS n');
  await kept.collectAll();
  const then = await moment(place);
  await kept.collectAll();
  const ended = await kept.recover(then, { roomBytes: 0 });
  assert.notEqual(ended.code, 0);
  assert.match(ended.stderr, /it was given up before the disk got full/);
  const { stdout } = await place.exec(['df', '--output=avail', '-B1M', '/data']);
  const freeMiB = Number(stdout.toString().split('\n')[1]);
  assert.ok(freeMiB > 150, `${freeMiB} MiB are free`);
  assert.equal(await place.query('SELECT count(*) FROM large'), '150000');
  assert.equal(await place.query("SELECT count(*) FROM pg_database WHERE datname = 'app_restoring'"), '0');
});
