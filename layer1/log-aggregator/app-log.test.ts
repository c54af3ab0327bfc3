import assert from 'node:assert/strict';
import {
  appendFile,
  mkdir,
  readFile,
  readdir,
  rename,
  rmdir,
  stat,
  symlink,
  truncate,
  writeFile,
} from 'node:fs/promises';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import * as fc from 'fast-check';
import type { AppLog } from './app-log.ts';
import { KnownLines } from './known-lines.ts';
import { encodeLine } from './record.ts';
import { segmentFile } from './segments.ts';
import { encoded, line, messages, openTestHistory, testLimits } from './testing.ts';

async function contents(log: AppLog): Promise<string[]> {
  const blocks: Buffer[] = [];
  for (let at = log.start; ;) {
    const block = await log.readFrom(at, log.end);
    if (block === undefined) return messages(blocks);
    blocks.push(block.bytes);
    at = block.next;
  }
}

async function backwards(log: AppLog): Promise<string[]> {
  return messages((await Array.fromAsync(log.readBackwards(log.end))).toReversed().map(({ bytes }) => bytes));
}

function named(from: number, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `m${from + index}`);
}

test('what was appended is there after a crash, read from either end', async () => {
  await using env = await openTestHistory({ limits: { ...testLimits, segmentBytes: 1_000 } });
  await env.history.append('a', encoded(0, 50));
  await Promise.all([50, 51, 52].map((at) => env.history.append('a', encoded(at))));
  const again = await (await env.reopen()).app('a');
  assert.deepEqual(await contents(again), named(0, 53));
  assert.deepEqual(await backwards(again), named(0, 53));
  assert.equal(again.end.line, 53);
  await again.append(encoded(53));
  assert.equal((await contents(again)).at(-1), 'm53');
});

test('a line that a crash tore is cut off, wherever it was torn, and nothing else', async () => {
  await using env = await openTestHistory();
  await env.history.append('a', encoded(0, 3));
  const [segment] = (await env.history.app('a')).segments;
  assert.ok(segment);
  const whole = await readFile(segment.file);
  const last = encodeLine(line(2)).length;
  for (const left of [1, Math.floor(last / 2), last - 1]) {
    await truncate(segment.file, whole.length - last + left);
    const log = await (await env.reopen()).app('a');
    assert.deepEqual(await contents(log), named(0, 2));
    assert.equal((await stat(segment.file)).size, whole.length - last);
    await log.append(encoded(2));
    assert.deepEqual(await contents(log), named(0, 3));
  }
});

test('zeros that a power cut leaves at the end of a file are cut off', async () => {
  await using env = await openTestHistory();
  await env.history.append('a', encoded(0, 3));
  const [segment] = (await env.history.app('a')).segments;
  assert.ok(segment);
  await appendFile(segment.file, Buffer.alloc(5_000));
  assert.deepEqual(await contents(await (await env.reopen()).app('a')), named(0, 3));
});

test('an app keeps its newest, all together keep theirs, and the oldest go first', async () => {
  const size = encodeLine(line(100)).length;
  const limits = { bytes: size * 20, segmentBytes: size * 5, totalBytes: size * 50 };
  let now = 0;
  await using env = await openTestHistory({ limits, now: () => now });
  const { history } = env;
  for (let at = 100; at < 200; at += 1) await history.append('a', encoded(at));
  const a = await history.app('a');
  const kept = await contents(a);
  assert.deepEqual(kept, named(200 - kept.length, kept.length));
  assert.ok(kept.length >= 15 && kept.length <= 20, `${kept.length}`);
  assert.equal(a.start.line, 100 - kept.length);
  for (const app of ['b', 'c', 'd']) {
    now += 1_000;
    for (let at = 100; at < 115; at += 1) await history.append(app, encoded(at));
    assert.ok(history.bytes <= limits.totalBytes);
  }
  assert.deepEqual(await contents(await history.app('d')), named(100, 15));
  assert.ok((await contents(a)).length < kept.length);
  const reopened = await env.reopen();
  assert.equal(reopened.bytes, history.bytes);
});

test('a place whose lines were deleted meanwhile leads on to what is kept, and says how many are missing', async () => {
  const size = encodeLine(line(100)).length;
  await using env = await openTestHistory({ limits: { ...testLimits, segmentBytes: size * 5 } });
  for (let at = 100; at < 120; at += 1) await env.history.append('a', encoded(at));
  const log = await env.history.app('a');
  const from = log.start;
  assert.equal(await log.dropOldest(), true);
  const block = await log.readFrom(from, log.end);
  assert.equal(block?.lost, 5);
  assert.deepEqual(await messages([block.bytes]), named(105, 5));
});

test('of a log that makes room for others its newest line stays: its end, and what was deleted, are known after a restart', async () => {
  await using env = await openTestHistory();
  await env.history.append('a', encoded(0, 20));
  const before = await env.history.app('a');
  const { end } = before;
  const dropping = before.dropOldest();
  await nextTurn();
  await before.append(encoded(20));
  assert.equal(await dropping, true);
  assert.deepEqual(await contents(before), named(19, 2));
  assert.equal(before.end.line, 21);
  assert.equal(await before.dropOldest(), true);
  assert.equal(await before.dropOldest(), false, 'a line is left');
  const log = await (await env.reopen()).app('a');
  assert.deepEqual(log.end, before.end);
  assert.ok(log.end.byte > end.byte);
  assert.deepEqual(await contents(log), named(20, 1));
  const known = await KnownLines.read(log);
  const replayed = Array.from({ length: 22 }, (_, at) => encodeLine(line(at)));
  assert.deepEqual(known.newOf(replayed, 'replay'), replayed.slice(21));
});

test('a crash while a log is cut to its newest line costs and doubles nothing', async () => {
  await using env = await openTestHistory();
  await env.history.append('a', encoded(0, 5));
  const log = await env.history.app('a');
  const [segment] = log.segments;
  assert.ok(segment);
  const bytes = await readFile(segment.file);
  await log.dropOldest();
  await writeFile(segment.file, bytes);
  const again = await (await env.reopen()).app('a');
  assert.deepEqual(again.end, log.end);
  assert.deepEqual(await contents(again), named(0, 5));
  assert.deepEqual(await backwards(again), named(0, 5));
});

test('a cut to the newest line that did not come to its end hides nothing, whatever was written after it', async () => {
  for (const left of [0, 10]) {
    await using env = await openTestHistory();
    await env.history.append('a', encoded(0, 5));
    const log = await env.history.app('a');
    const last = encodeLine(line(4));
    const start = { byte: log.end.byte - last.length, line: log.end.line - 1 };
    const stray = segmentFile(join(env.dir, 'apps', 'a'), start);
    await writeFile(stray, last.subarray(0, left));
    await writeFile(join(env.dir, 'apps', 'a', `.${basename(stray)}.x1.tmp`), last.subarray(0, left));
    const again = await (await env.reopen()).app('a');
    assert.deepEqual(again.end, log.end);
    assert.equal((await readdir(join(env.dir, 'apps', 'a'))).length, 1, 'nothing of it is left');
    await again.append(encoded(5, 5));
    await writeFile(stray, '');
    const later = await (await env.reopen()).app('a');
    assert.deepEqual(later.end, again.end);
    assert.deepEqual(await contents(later), named(0, 10));
  }
});

test('what a version before wrote to what a cut had left, and what it wrote beside it, is all there, over a crash too', async () => {
  await using env = await openTestHistory();
  await env.history.append('a', encoded(0, 5));
  const log = await env.history.app('a');
  const stray = segmentFile(join(env.dir, 'apps', 'a'), { byte: log.end.byte - encodeLine(line(4)).length, line: 4 });
  await log.append(encoded(5, 5));
  await writeFile(stray, Buffer.concat(encoded(100, 3)));
  // Nothing had been written to this one yet.
  await writeFile(segmentFile(join(env.dir, 'apps', 'a'), log.end), '');
  const wanted = [...named(0, 10), ...named(100, 3)];
  const again = await (await env.reopen()).app('a');
  assert.deepEqual(await contents(again), wanted);
  assert.deepEqual(await backwards(again), wanted);
  assert.equal(again.end.line, 13);
  await again.append(encoded(103));
  assert.deepEqual(await contents(await (await env.reopen()).app('a')), [...wanted, 'm103']);
});

test('a cut to the newest line has its name once it is whole', async () => {
  await using env = await openTestHistory();
  await env.history.append('a', encoded(0, 5));
  const log = await env.history.app('a');
  const start = { byte: log.end.byte - encodeLine(line(4)).length, line: log.end.line - 1 };
  // Whoever wrote to that name directly would find no room there.
  await symlink('/dev/full', segmentFile(join(env.dir, 'apps', 'a'), start));
  assert.equal(await log.dropOldest(), true);
  assert.deepEqual(await contents(await (await env.reopen()).app('a')), named(4, 1));
});

test('a file that a power cut left with half a line or zeros at its end loses these alone, and they are counted', async () => {
  const size = encodeLine(line(100)).length;
  for (const zeros of [0, size]) {
    await using env = await openTestHistory({ limits: { ...testLimits, segmentBytes: size * 5 } });
    for (let at = 100; at < 112; at += 1) await env.history.append('a', encoded(at));
    const [first] = (await env.history.app('a')).segments;
    assert.ok(first);
    await truncate(first.file, 3 * size + 10);
    if (zeros > 0) await truncate(first.file, 5 * size);
    const log = await (await env.reopen()).app('a');
    assert.deepEqual(await contents(log), [...named(100, 3), ...named(105, 7)]);
    assert.deepEqual(await backwards(log), [...named(100, 3), ...named(105, 7)]);
    const before = await log.readFrom(log.start, log.end);
    const behind = await log.readFrom(before?.next ?? log.start, log.end);
    assert.deepEqual([before?.next.line, behind?.from.line, behind?.lost, behind?.damaged], [3, 5, 0, 2]);
    const lines = (await Array.fromAsync(log.readBackwards(log.end))).map(({ from, next }) => [from.line, next.line]);
    assert.deepEqual(lines.at(-1), [0, 3]);
  }
});

test('a file whose end is lost while it is read does not become one line with the next', async () => {
  const size = encodeLine(line(100)).length;
  await using env = await openTestHistory({ limits: { ...testLimits, segmentBytes: size * 5 } });
  for (let at = 100; at < 110; at += 1) await env.history.append('a', encoded(at));
  const log = await env.history.app('a');
  const [first] = log.segments;
  assert.ok(first);
  await truncate(first.file, 3 * size + 10);
  const before = await log.readFrom(log.start, log.end);
  const behind = await log.readFrom(before?.next ?? log.start, log.end);
  assert.ok(behind);
  assert.deepEqual(await messages([behind.bytes]), named(105, 5));
  assert.ok(behind.damaged > 0);
});

test('apps that write at once make room once', async () => {
  const segmentBytes = 4_096;
  const totalBytes = segmentBytes * 20;
  // None comes to a limit of its own: by that it would make room beside what is made for all.
  const limits = { bytes: totalBytes, segmentBytes, totalBytes };
  await using env = await openTestHistory({ limits });
  const { history } = env;
  const apps = Array.from({ length: 40 }, (_, index) => `a${index}`);
  const kept: number[] = [];
  for (let round = 0; round < 60; round += 1) {
    await Promise.all(
      apps.map(async (app, index) => {
        await history.append(app, encoded(round, index < 4 ? 8 : 1));
        kept.push(history.bytes);
      }),
    );
  }
  const full = kept.slice(kept.findIndex((bytes) => bytes > limits.totalBytes - segmentBytes));
  assert.ok(full.length > apps.length * 10, String(full.length));
  const least = Math.min(...full);
  assert.ok(least > limits.totalBytes - 2 * segmentBytes, `${least} of ${limits.totalBytes}`);
});

test('a deleted app leaves no file, its followers end, and lines that come late make none', async () => {
  await using env = await openTestHistory();
  const { history } = env;
  await history.append('a', encoded(0, 3));
  const { reader } = (await history.app('a')).follow();
  const waiting = reader.next(10);
  await history.remove('a');
  assert.equal(await waiting, undefined);
  await history.append('a', encoded(3));
  assert.deepEqual(await readdir(join(env.dir, 'apps')), []);
  assert.deepEqual(history.apps, []);
});

test('an app whose file cannot be written refuses its lines, and takes them once that works again', async () => {
  await using env = await openTestHistory();
  const log = await env.history.app('a');
  await log.append(encoded(0));
  const [segment] = log.segments;
  assert.ok(segment);
  await rename(segment.file, `${segment.file}.away`);
  await assert.rejects(log.append(encoded(1)));
  await rename(`${segment.file}.away`, segment.file);
  await log.append(encoded(2));
  assert.deepEqual(await contents(log), ['m0', 'm2']);
});

test('a write that fails is heard of by all whose lines it has', async () => {
  await using env = await openTestHistory({ limits: { ...testLimits, segmentBytes: 1 } });
  const log = await env.history.app('a');
  await log.append(encoded(0, 3));
  // Where the next file would be.
  const inTheWay = segmentFile(join(env.dir, 'apps', 'a'), log.end);
  await mkdir(inTheWay);
  const cutting = log.dropOldest();
  for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
  const both = await Promise.allSettled([log.append(encoded(3)), log.append(encoded(4))]);
  assert.deepEqual(
    both.map(({ status }) => status),
    ['rejected', 'rejected'],
  );
  assert.equal(await cutting, true);
  assert.equal(log.end.line, 3);
  await rmdir(inTheWay);
  await log.append(encoded(5));
  assert.deepEqual(await contents(log), ['m2', 'm5']);
});

test('followers get lines once they are kept, in the order they are kept', async () => {
  await using env = await openTestHistory();
  const log = await env.history.app('a');
  await log.append(encoded(0));
  const { reader, from } = log.follow();
  assert.deepEqual(from, log.end);
  const next = reader.next(10);
  await Promise.all([log.append(encoded(1)), log.append(encoded(2)), log.append(encoded(3))]);
  const got = [...((await next)?.entries ?? []), ...reader.read(10).entries];
  assert.deepEqual(await messages(got), (await contents(log)).slice(1));
  assert.equal(log.followers, 1);
  log.leave(reader);
  assert.equal(log.followers, 0);
});

test('any lines in any number of files are read the same from both ends and from any place', async () => {
  const lines = fc.array(fc.nat(3_000), { minLength: 1, maxLength: 30 });
  await fc.assert(
    fc.asyncProperty(lines, fc.integer({ min: 200, max: 9_000 }), fc.nat(), async (lengths, segmentBytes, pick) => {
      await using env = await openTestHistory({ limits: { ...testLimits, segmentBytes } });
      const log = await env.history.app('a');
      const all = lengths.map((length, index) => `${index} ${'é'.repeat(length)}`);
      const places = [];
      for (const message of all) {
        places.push(log.end);
        await log.append([encodeLine(line(0, { message }))]);
      }
      assert.deepEqual(await contents(log), all);
      assert.deepEqual(await backwards(log), all);
      const from = pick % all.length;
      const place = places[from];
      assert.ok(place);
      const block = await log.readFrom(place, log.end);
      assert.ok(block);
      assert.equal((await messages([block.bytes]))[0], all[from]);
      assert.equal(block.lost, 0);
    }),
    { numRuns: 25 },
  );
});
