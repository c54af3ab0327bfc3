/**
 * Lines through the log aggregator: taken from one host agent, kept on disk, and followed live by ten readers, one of whom
 * has stopped reading. The readers and the agent are a process of their own, as they are in life. `logs 200000`: so many lines.
 */
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { request } from 'node:http';
import type { IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { HttpClient } from '@flynn/kit/http-client';
import { waitFor } from '@flynn/kit/retry';
import { LogBuffer } from '@flynn/log-aggregator/log-buffer';
import { routes } from '@flynn/log-aggregator/api';
import type { Bench } from './bench.ts';
import { figure, type Figure } from './figure.ts';

const key = 'bench';
const readerCount = 10;
const defaultLines = 1_000_000;
const batchLines = 1_000;
const message = 'GET /products/42?sort=price 200 12ms "Mozilla/5.0 (X11; Linux x86_64)" request_id=3f9a';
const newline = 0x0a;

export const bench: Bench = {
  needs: 'nothing',
  run: async ([count]) => {
    const lineCount = count === undefined ? defaultLines : Number(count);
    // The first run is the compiler's.
    inMemory(200_000);
    return [inMemory(lineCount), ...(await overHttp(lineCount))];
  },
};

/** Nothing but the buffer and its readers. */
function inMemory(count: number): Figure {
  const line = Buffer.from(`${message}\n`);
  const buffer = new LogBuffer<Buffer>({ sizeOf: (each) => each.length });
  const readers = Array.from({ length: readerCount - 1 }, () => buffer.open());
  buffer.open();
  const batch = Array.from({ length: 100 }, () => line);
  const startedAt = performance.now();
  let read = 0;
  for (let written = 0; written < count; written += batch.length) {
    buffer.write(batch);
    for (const reader of readers) read += reader.read(batch.length).entries.length;
  }
  const seconds = (performance.now() - startedAt) / 1_000;
  return figure({
    name: `buffer alone, ${readers.length} readers of ${read} lines`,
    value: count / seconds,
    unit: '/s',
  });
}

async function overHttp(lineCount: number): Promise<Figure[]> {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-bench-logs-'));
  const aggregator = await startAggregator(dir);
  const client = new HttpClient({ baseUrl: aggregator.url, key, name: 'the log aggregator' });
  try {
    await send(client, 100_000, 'warm-up');
    const quietMb = await residentMb(aggregator.process);
    const idleUs = await cpuMicroseconds(aggregator.process);
    const takenOnly = await rate(lineCount, () => send(client, lineCount, 'alone'));
    const takenUs = await cpuMicroseconds(aggregator.process);
    const readers = await Promise.all(
      Array.from({ length: readerCount }, (_, index) => follow(aggregator.url, { lineCount, isStalled: index === 0 })),
    );
    let peakMb = 0;
    const watch = setInterval(() => {
      void residentMb(aggregator.process).then((mb) => (peakMb = Math.max(peakMb, mb)));
    }, 100);
    const followed = await rate(lineCount, async () => {
      await send(client, lineCount, 'followed');
      await waitFor(() => readers.slice(1).every(({ isDone }) => isDone()), {
        what: 'the readers to be at the end',
        deadlineMs: 120_000,
      });
    });
    clearInterval(watch);
    const followedUs = await cpuMicroseconds(aggregator.process);
    const told = readers.slice(1).map(({ lines }) => lines());
    for (const { close } of readers) close();
    return [
      figure({ name: 'taken and kept, nobody follows', value: takenOnly, unit: '/s', must: '>= 50000' }),
      figure({
        name: `taken, kept and followed by ${readerCount}, one stalled`,
        value: followed,
        unit: '/s',
        must: '>= 50000, aim 300000',
      }),
      figure({ name: 'CPU of a line taken and kept', value: (takenUs - idleUs) / lineCount, unit: 'us' }),
      figure({ name: 'and followed', value: (followedUs - takenUs) / lineCount, unit: 'us', must: '<= 20' }),
      figure({
        name: 'of those lines each live reader got, the rest it was told of',
        value: (100 * Math.min(...told)) / lineCount,
        unit: '%',
      }),
      figure({ name: 'resident memory before anybody follows', value: quietMb, unit: 'MB' }),
      figure({
        name: 'growth at its peak, ten readers',
        value: peakMb - quietMb,
        unit: 'MB',
        must: `<= ${readerCount + 1} windows of 0.5 MB, and the sockets' and garbage's share`,
      }),
      figure({ name: 'on disk', value: (await diskBytes(dir)) / 1e6, unit: 'MB', must: '<= 3 x 67' }),
    ];
  } finally {
    await client.close();
    aggregator.process.kill('SIGTERM');
    await once(aggregator.process, 'exit');
    await rm(dir, { recursive: true, force: true });
  }
}

async function rate(lineCount: number, work: () => Promise<void>): Promise<number> {
  const startedAt = performance.now();
  await work();
  return lineCount / ((performance.now() - startedAt) / 1_000);
}

async function startAggregator(dir: string): Promise<{ process: ChildProcess; url: string }> {
  const program = join(import.meta.dirname, '../../layer1/log-aggregator/main.ts');
  const child = spawn(process.execPath, ['--max-old-space-size=192', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { PATH: process.env['PATH'], FLYNN_KEY: key, FLYNN_STORAGE_DIR: dir, PORT: '0' },
  });
  for await (const chunk of child.stdout) {
    const [, port] = /"port":(\d+)/.exec(String(chunk)) ?? [];
    if (port === undefined) continue;
    child.stdout.resume();
    return { process: child, url: `http://127.0.0.1:${port}` };
  }
  throw new Error('the log aggregator did not start');
}

/** As a host agent does: batch after batch, each confirmed. */
async function send(client: HttpClient, count: number, app: string): Promise<void> {
  const meta = { 'flynn.app': app, 'flynn.app_name': app, 'flynn.release': 'r1', 'flynn.type': 'web' };
  const fields = JSON.stringify({ jobId: 'h1-job', hostId: 'h1', stream: 'stdout', message, meta }).slice(1);
  for (let at = 0; at < count; at += batchLines) {
    let body = '';
    for (let index = at; index < at + batchLines; index += 1) {
      body += `{"timestamp":"2030-01-01T00:00:00.${String(index).padStart(9, '0')}Z",${fields}\n`;
    }
    await client.call(routes.ingest, { query: { mode: 'fresh' }, body });
  }
}

type Follower = { lines: () => number; isDone: () => boolean; close: () => void };

/** Counts line ends; what was left out is in the notices, which are few. */
async function follow(
  url: string,
  { lineCount, isStalled }: { lineCount: number; isStalled: boolean },
): Promise<Follower> {
  const asked = request(`${url}/apps/followed/lines?follow=true&lines=0`, {
    headers: { authorization: `Bearer ${key}` },
  });
  asked.end();
  const [answer] = (await once(asked, 'response')) as [IncomingMessage];
  let lines = 0;
  let missed = 0;
  answer.on('error', () => undefined);
  if (!isStalled) {
    answer.on('data', (chunk: Buffer) => {
      for (let at = chunk.indexOf(newline); at >= 0; at = chunk.indexOf(newline, at + 1)) lines += 1;
      for (let at = chunk.indexOf('"jobId":""'); at >= 0; at = chunk.indexOf('"jobId":""', at + 1)) {
        const [, count] = /"message":"(\d+) line/.exec(chunk.toString('latin1', at, at + 300)) ?? [];
        missed += Number(count ?? 0);
        lines -= 1;
      }
    });
  }
  return { lines: () => lines, isDone: () => lines + missed >= lineCount * 0.999, close: () => asked.destroy() };
}

async function residentMb({ pid }: ChildProcess): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1_024;
}

/** Of the whole process, in ticks of 10 ms: what a busy machine does not change. */
async function cpuMicroseconds({ pid }: ChildProcess): Promise<number> {
  const fields = (await readFile(`/proc/${pid}/stat`, 'utf8')).split(') ')[1]?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) * 10_000;
}

async function diskBytes(dir: string): Promise<number> {
  const names = await readdir(dir, { recursive: true });
  const sizes = await Promise.all(names.map(async (name) => (await stat(join(dir, name))).size));
  return sizes.reduce((sum, size) => sum + size, 0);
}
