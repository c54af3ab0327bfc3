import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { test } from 'node:test';
import { limitBytes, limitMet, slugTooLarge, tooLong, watchDisk } from './limits.ts';

async function inFolder(files: Record<string, string>, check: (dir: string) => Promise<void>): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-limits-'));
  try {
    for (const [path, text] of Object.entries(files)) {
      await mkdir(dirname(join(dir, path)), { recursive: true });
      await writeFile(join(dir, path), text);
    }
    await check(dir);
  } finally {
    await rm(dir, { recursive: true });
  }
}

const groups: [string, Record<string, string>, RegExp | undefined][] = [
  [
    'memory, version 2',
    { 'memory.events': 'oom 3\noom_kill 1\n', 'memory.max': '536870912\n' },
    /limit of 512\.0M.*FLYNN_BUILD_MEMORY/s,
  ],
  [
    'memory, version 1',
    { 'memory/memory.oom_control': 'under_oom 0\noom_kill 2\n', 'memory/memory.limit_in_bytes': '1073741824\n' },
    /limit of 1\.00G/,
  ],
  ['processes', { 'pids/pids.events': 'max 7\n', 'pids/pids.max': '64\n' }, /limit of 64\..*FLYNN_BUILD_PIDS/s],
  ['nothing', { 'memory.events': 'oom_kill 0\n', 'pids.events': 'max 0\n' }, undefined],
  ['no control groups', {}, undefined],
];
for (const [name, files, expected] of groups) {
  test(`which limit was met: ${name}`, () =>
    inFolder(files, async (dir) => {
      const said = await limitMet(dir);
      if (expected === undefined) assert.equal(said, undefined);
      else assert.match(said ?? '', expected);
    }));
}

test('a stream of more bytes than there may be fails with the reason, and passes on what may be', async () => {
  let passed = 0;
  const count = async (source: AsyncIterable<Buffer>): Promise<void> => {
    for await (const chunk of source) passed += chunk.length;
  };
  const chunks = Array.from({ length: 4 }, () => Buffer.alloc(1000));
  await pipeline(
    Readable.from(chunks),
    limitBytes(4000, () => slugTooLarge(4000)),
    count,
  );
  assert.equal(passed, 4000);
  await assert.rejects(
    pipeline(
      Readable.from(chunks),
      limitBytes(3999, () => slugTooLarge(3999)),
      count,
    ),
    {
      code: 'exhausted',
      message: /\.slugignore/,
    },
  );
});

test('folders that hold more than they may are told, with how much', () =>
  inFolder({ 'a/b': 'x'.repeat(300_000) }, async (dir) => {
    const stop = AbortSignal.timeout(60_000);
    await assert.rejects(watchDisk([dir], 100_000, stop), {
      code: 'exhausted',
      message: /wrote \d+K to the disk; its limit is 98K/,
    });
    const ended = new AbortController();
    const watching = watchDisk([dir], 1024 ** 3, ended.signal);
    ended.abort();
    await watching;
  }));

test('how long is too long is told in what people count in', () => {
  assert.match(tooLong(3_000).message, /limit of 3 s/);
  assert.match(tooLong(1_800_000).message, /limit of 30 minutes/);
});
