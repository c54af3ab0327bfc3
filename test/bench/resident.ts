/** Which pages of memory does each process have, and how much is that of each part of a host? */
import { closeSync, openSync, readFileSync, readSync } from 'node:fs';
import { hasErrno } from '@flynn/kit/errors';

const pageBytes = 4_096;
const entryBytes = 8;
/** Of an entry of /proc/PID/pagemap: bit 63 says that the page is in memory, the lowest 55 which one it is. */
const presentBit = 0x8000_0000;
const highFrameBits = 0x007f_ffff;

/** The physical pages that a process maps; none of one that has ended. Reading them needs root. */
export function pagesOf(pid: number): Set<number> {
  const pages = new Set<number>();
  try {
    const file = openSync(`/proc/${pid}/pagemap`, 'r');
    try {
      for (const area of areasOf(readFileSync(`/proc/${pid}/smaps`, 'utf8'))) readArea(file, area, pages);
    } finally {
      closeSync(file);
    }
  } catch (error) {
    if (!hasErrno(error, 'ENOENT', 'ESRCH')) throw error;
    pages.clear();
  }
  return pages;
}

export type Area = { firstPage: number; count: number };

/** Those of a process's mappings that have anything in memory: most of what V8 reserves has not. */
export function areasOf(smaps: string): Area[] {
  const areas: Area[] = [];
  let last: Area | undefined;
  for (const line of smaps.split('\n')) {
    const [, start, end] = /^([0-9a-f]+)-([0-9a-f]+) /.exec(line) ?? [];
    if (start !== undefined && end !== undefined) {
      const firstPage = Number.parseInt(start, 16) / pageBytes;
      last = { firstPage, count: Number.parseInt(end, 16) / pageBytes - firstPage };
    } else if (last !== undefined && /^Rss: +[1-9]/.test(line)) areas.push(last);
  }
  return areas;
}

function readArea(file: number, { firstPage, count }: Area, pages: Set<number>): void {
  const entries = Buffer.alloc(count * entryBytes);
  const length = readSync(file, entries, 0, entries.length, firstPage * entryBytes);
  for (let at = 0; at + entryBytes <= length; at += entryBytes) {
    const high = entries.readUInt32LE(at + 4);
    if ((high & presentBit) === 0) continue;
    const page = (high & highFrameBits) * 2 ** 32 + entries.readUInt32LE(at);
    if (page === 0) throw new Error('the kernel shows nobody but root which pages a process has');
    pages.add(page);
  }
}

type Process = { part: string; pages: ReadonlySet<number> };

/**
 * Megabytes of each part, the largest first. A page that several processes have counts for each of them in equal shares,
 * those of the processes given: it is what the kernel calls proportional set size, on a machine that has no others.
 */
export function sharesOf(processes: readonly Process[]): Map<string, number> {
  const owners = new Map<number, number>();
  for (const { pages } of processes) for (const page of pages) owners.set(page, (owners.get(page) ?? 0) + 1);
  const parts = new Map<string, number>();
  for (const { part, pages } of processes) {
    let share = 0;
    for (const page of pages) share += 1 / (owners.get(page) ?? 1);
    parts.set(part, (parts.get(part) ?? 0) + (share * pageBytes) / 2 ** 20);
  }
  return new Map([...parts].toSorted(([, a], [, b]) => b - a));
}
