/** The history of a PostgreSQL in memory, as the controller keeps it in blobs. For tests. */
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { waitFor } from '@flynn/kit/retry';
import type { Ended } from '../members-fixture.ts';
import type { PostgresMembers } from './members-fixture.ts';
import { postgres } from './postgres.ts';

export const history = postgres.history ?? assert.fail('it has no history');
const roomBytes = 100 * 1024 ** 2;

export type Header = {
  system: string;
  timeline: number;
  from?: number;
  to?: number;
  left?: number;
  until: number;
  gap?: string;
};

export async function run(
  place: PostgresMembers,
  command: readonly string[],
): Promise<{ header: unknown; rest: Buffer }> {
  const { code, stdout, stderr } = await place.exec(command);
  assert.equal(code, 0, stderr);
  const end = stdout.indexOf('\n') + 1;
  return { header: JSON.parse(stdout.toString('utf8', 0, end)), rest: stdout.subarray(end) };
}

export class Kept {
  readonly #place: PostgresMembers;
  base: Buffer = Buffer.alloc(0);
  log: Buffer[] = [];
  at: { system: string; timeline: number; lsn: number } | undefined;
  until = 0;

  constructor(place: PostgresMembers) {
    this.#place = place;
  }

  async collect(): Promise<Header> {
    const { header, rest } = await run(this.#place, history.collect(this.at));
    const said = header as Header;
    if (said.gap !== undefined) return said;
    this.at = { system: said.system, timeline: said.timeline, lsn: said.to ?? 0 };
    this.until = said.until;
    if (rest.length > 0) this.log.push(rest);
    return said;
  }

  async begin(): Promise<void> {
    await this.collect();
    this.base = (await run(this.#place, history.base)).rest;
    await this.collect();
  }

  /** Until all that is committed by now was collected. */
  async collectAll(): Promise<void> {
    const now = Date.now();
    await waitFor(async () => (await this.collect()).until > now, {
      what: 'what is committed',
      deadlineMs: 120_000,
      intervalMs: 500,
    });
  }

  async recover(at: number, { roomBytes: room = roomBytes, cutBytes = 0 } = {}): Promise<Ended> {
    const lines = (kind: string, data: Buffer) => [Buffer.from(`${kind} ${data.length}\n`), data];
    const parts = [...lines('base', this.base), ...this.log.flatMap((one) => lines('wal', one)), Buffer.from('end\n')];
    const whole = Buffer.concat(parts);
    const input = whole.subarray(0, whole.length - cutBytes);
    const end = this.at ?? assert.fail('nothing was collected');
    return this.#place.exec(history.recover(new Date(at).toISOString(), room, end), { input });
  }
}

/** The same up to now, to go on with another way. */
export function copyOf(place: PostgresMembers, kept: Kept): Kept {
  const { base, log, at, until } = kept;
  return Object.assign(new Kept(place), { base, log: [...log], at: at === undefined ? at : { ...at }, until });
}

/** The moment by the clock of the database, with nothing else in it. */
export async function moment(place: PostgresMembers): Promise<number> {
  await pause(50);
  const now = Number(await place.query('SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint'));
  await pause(50);
  return now;
}
