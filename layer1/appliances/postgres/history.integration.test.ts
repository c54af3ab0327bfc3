/** A PostgreSQL of two members goes back to a moment, by what was collected of its log; also over a switchover. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { waitFor } from '@flynn/kit/retry';
import { startMembers } from './members-fixture.ts';
import type { Members } from './members-fixture.ts';
import { postgres } from './postgres.ts';

const history = postgres.history ?? assert.fail('it has no history');
const roomBytes = 100 * 1024 ** 2;

let place: Members;
before(async () => {
  place = await startMembers({ count: 2 });
});
after(async () => {
  await place?.[Symbol.asyncDispose]();
});

type Header = {
  system: string;
  timeline: number;
  from?: number;
  to?: number;
  left?: number;
  until: number;
  gap?: string;
};

async function run(command: readonly string[]): Promise<{ header: unknown; rest: Buffer }> {
  const { code, stdout, stderr } = await place.exec(command);
  assert.equal(code, 0, stderr);
  const end = stdout.indexOf('\n') + 1;
  return { header: JSON.parse(stdout.toString('utf8', 0, end)), rest: stdout.subarray(end) };
}

/** As the controller keeps it: all of it in memory. */
class Kept {
  base: Buffer = Buffer.alloc(0);
  log: Buffer[] = [];
  at: { system: string; timeline: number; lsn: number } | undefined;
  until = 0;

  async collect(): Promise<Header> {
    const { header, rest } = await run(history.collect(this.at));
    const said = header as Header;
    if (said.gap !== undefined) return said;
    this.at = { system: said.system, timeline: said.timeline, lsn: said.to ?? 0 };
    this.until = said.until;
    if (rest.length > 0) this.log.push(rest);
    return said;
  }

  async begin(): Promise<void> {
    await this.collect();
    this.base = (await run(history.base)).rest;
    await this.collect();
  }

  /** Until all that is committed by now was collected. */
  async collectAll(): Promise<void> {
    const now = Date.now();
    await waitFor(async () => (await this.collect()).until > now, {
      what: 'what is committed',
      deadlineMs: 20_000,
      intervalMs: 500,
    });
  }

  async recover(at: number, { roomBytes: room = roomBytes, cutBytes = 0 } = {}) {
    const lines = (kind: string, data: Buffer) => [Buffer.from(`${kind} ${data.length}\n`), data];
    const parts = [...lines('base', this.base), ...this.log.flatMap((one) => lines('wal', one)), Buffer.from('end\n')];
    const whole = Buffer.concat(parts);
    const input = whole.subarray(0, whole.length - cutBytes);
    return place.exec(history.recover(new Date(at).toISOString(), room), { input });
  }
}

/** The moment by the clock of the database, with nothing else in it. */
async function moment(): Promise<number> {
  await pause(50);
  const now = Number(await place.query('SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint'));
  await pause(50);
  return now;
}

const rows = () => place.query("SELECT string_agg(name, ' ' ORDER BY name) FROM kept");
const write = (name: string) => place.query(`INSERT INTO kept VALUES ('${name}')`);

test('what was dropped comes back as it was at any moment since, also over a switchover; later it is as it is', async () => {
  const kept = new Kept();
  await place.query('CREATE TABLE kept (name text); ALTER TABLE kept OWNER TO app; CREATE UNLOGGED TABLE lost (n int)');
  await kept.begin();
  await write('one');
  const one = await moment();
  await write('two');
  await kept.collectAll();
  const quiet = await kept.collect();
  assert.equal(quiet.from, quiet.to, 'a database that is not written to has nothing to collect');

  await place.copied();
  const moved = await place.exec(postgres.commands.switchover);
  assert.equal(moved.code, 0, moved.stderr);
  await place.copied();
  await write('three');
  const three = await moment();
  await place.query('DROP TABLE kept');
  const dropped = await moment();
  const ahead = Object.assign(new Kept(), kept, { log: [...kept.log] });
  const { left = 0 } = (await run(history.collect(kept.at))).header as Header;
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
  const kept = new Kept();
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
  const anew = await moment();
  await place.query('DROP TABLE anew');
  await kept.collectAll();
  const ended = await kept.recover(anew);
  assert.equal(ended.code, 0, ended.stderr);
  assert.equal(await place.query("SELECT to_regclass('anew')"), 'anew');
});
