/** Lines and logs for tests, in a directory of their own. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { silentLogger } from '@flynn/kit/log';
import type { z } from 'zod';
import type { Line } from './api.ts';
import { History } from './history.ts';
import type { HistoryLimits, HistoryOptions } from './history.ts';
import type { sentLineSchema } from './ingest.ts';
import { parseStored } from './filter.ts';
import { encodeLine } from './record.ts';

export const testLimits: HistoryLimits = { bytes: 1e6, segmentBytes: 1e5, totalBytes: 1e7 };

export type TestHistory = AsyncDisposable & {
  dir: string;
  history: History;
  /** As after a crash: nothing was closed. */
  reopen(limits?: HistoryLimits): Promise<History>;
};

export async function openTestHistory(options: Partial<HistoryOptions> = {}): Promise<TestHistory> {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-logs-'));
  const now = () => Date.parse(timeAt(0));
  const open = (limits: HistoryLimits) => History.open({ dir, log: silentLogger(), now, ...options, limits });
  return {
    dir,
    history: await open(options.limits ?? testLimits),
    reopen: (limits = options.limits ?? testLimits) => open(limits),
    async [Symbol.asyncDispose]() {
      await rm(dir, { recursive: true, force: true });
    },
  };
}

export function timeAt(at: number): string {
  return `2030-01-01T00:00:00.${String(at).padStart(9, '0')}Z`;
}

export function line(at: number, changes: Partial<Line> = {}): Line {
  const fields = { jobId: 'j1', hostId: 'h1', processType: 'web', stream: 'stdout' } as const;
  return { ...fields, timestamp: timeAt(at), message: `m${at}`, ...changes };
}

export function encoded(from: number, count = 1, changes: Partial<Line> = {}): Buffer[] {
  return Array.from({ length: count }, (_, index) => encodeLine(line(from + index, changes)));
}

/** As a host agent sends it. */
export function sent(at: number, changes: Partial<z.output<typeof sentLineSchema>> = {}): string {
  const { processType, ...fields } = line(at);
  return `${JSON.stringify({ ...fields, meta: { 'flynn.app': 'app', 'flynn.type': processType }, ...changes })}\n`;
}

/** The lines in pieces of ndjson. */
export async function parsed(pieces: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<Line[]> {
  const text = Buffer.concat(await Array.fromAsync(pieces)).toString();
  return text
    .split('\n')
    .filter((each) => each !== '')
    .flatMap((each) => parseStored(Buffer.from(each)) ?? []);
}

export async function messages(pieces: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<string[]> {
  return (await parsed(pieces)).map(({ message }) => message);
}
