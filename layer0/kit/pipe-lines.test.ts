import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants, openSync, readSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { hasErrno } from './errors.ts';
import { PipeLines } from './pipe-lines.ts';

const lostLine = (lost: number) => `lost ${lost}\n`;

/** A pipe, what is read of it so far, and writers that have it as their output. */
async function openPipe(t: TestContext) {
  const folder = await mkdtemp(join(tmpdir(), 'flynn-pipe-'));
  t.after(() => rm(folder, { recursive: true }));
  const file = join(folder, 'pipe');
  execFileSync('mkfifo', [file]);
  const reader = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
  const output = openSync(file, constants.O_WRONLY);
  const parts: Buffer[] = [];
  return {
    output,
    open() {
      const lines = PipeLines.open(output, lostLine);
      assert.ok(lines);
      t.after(() => lines.close());
      return lines;
    },
    /** At most so much of what is there. */
    read(bytes: number): number {
      const part = Buffer.alloc(bytes);
      try {
        const read = readSync(reader, part);
        parts.push(part.subarray(0, read));
        return read;
      } catch (error) {
        if (hasErrno(error, 'EAGAIN')) return 0;
        throw error;
      }
    },
    text: () => Buffer.concat(parts).toString(),
  };
}

test('lines of two writers are never mixed, however slowly they are read', async (t) => {
  const pipe = await openPipe(t);
  const writers = [pipe.open(), pipe.open()];
  const line = (writer: number, at: number) => `${writer} ${at} ${'x'.repeat(at % 300)}`;
  const count = 2_000;
  for (let at = 0; at < count; at += 100) {
    for (const [writer, lines] of writers.entries()) {
      lines.write(Array.from({ length: 100 }, (_, more) => `${line(writer, at + more)}\n`).join(''));
      pipe.read(9_973);
    }
    if (at % 500 === 0) await pause(25);
  }
  for (let silent = 0; silent < 5;) {
    silent = pipe.read(65_536) === 0 ? silent + 1 : 0;
    await pause(silent === 0 ? 1 : 25);
  }
  const told = pipe.text().trimEnd().split('\n');
  for (const writer of [0, 1]) {
    const own = told.filter((one) => one.startsWith(`${writer} `));
    assert.deepEqual(
      own,
      Array.from({ length: count }, (_, at) => line(writer, at)),
    );
  }
  assert.equal(told.length, 2 * count);
});

test('a reader that stands still is waited for by nobody: 8 MB are kept, the rest is counted', async (t) => {
  const pipe = await openPipe(t);
  const lines = pipe.open();
  const block = `${'y'.repeat(1_023)}\n`.repeat(64);
  const drained = Promise.withResolvers<void>();
  for (let at = 0; at < 200; at += 1) lines.write(block);
  lines.once('drain', () => drained.resolve());
  assert.equal(lines.write('one more\n'), false);
  const reading = setInterval(() => {
    while (pipe.read(65_536) > 0);
  }, 5);
  await drained.promise;
  clearInterval(reading);
  while (pipe.read(65_536) > 0);
  const told = pipe.text().trimEnd().split('\n');
  const lost = /^lost (\d+)$/.exec(told.at(-1) ?? '')?.[1];
  const kept = (told.length - 1) / 64;
  assert.equal(kept + Number(lost), 201);
  assert.ok(kept >= 128 && kept <= 131, String(kept));
  assert.equal(lines.write('again\n'), true);
});

test('a line that is longer than what a pipe takes whole gets there too', async (t) => {
  const pipe = await openPipe(t);
  const lines = pipe.open();
  const long = `${'z'.repeat(300_000)}\n`;
  lines.write(`a\n${long}b\n`);
  for (let turn = 0; !pipe.text().endsWith('b\n') && turn < 2_000; turn += 1) {
    while (pipe.read(65_536) > 0);
    await pause(5);
  }
  assert.equal(pipe.text(), `a\n${long}b\n`);
});

test('what a process says last is there, though nobody read while it said it', async (t) => {
  const pipe = await openPipe(t);
  // Its clock stands still: however late the reader is on a busy machine, it is in time.
  const source = `
    import { writeSync } from 'node:fs';
    import { PipeLines } from ${JSON.stringify(new URL('pipe-lines.ts', import.meta.url).href)};
    const lines = PipeLines.open(1, (lost) => 'lost ' + lost + '\\n');
    for (let at = 0; at < 200; at += 1) lines.write('x'.repeat(999) + '\\n');
    lines.write('the reason\\n');
    performance.now = () => 0;
    writeSync(2, 'said');
    process.exit(1);
  `;
  const args = ['--input-type=module', '-e', source];
  const child = spawn(process.execPath, args, { stdio: ['ignore', pipe.output, 'pipe'] });
  t.after(() => child.kill('SIGKILL'));
  const exited = once(child, 'exit');
  assert.ok(child.stderr);
  const [said] = (await once(child.stderr, 'data')) as [Buffer];
  assert.equal(said.toString(), 'said');
  const reading = setInterval(() => {
    while (pipe.read(65_536) > 0);
  }, 5);
  await exited;
  clearInterval(reading);
  while (pipe.read(65_536) > 0);
  assert.match(pipe.text(), /^(?:x{999}\n){200}the reason\n$/);
});

test('what is no pipe is left to others', () => {
  assert.equal(PipeLines.open(openSync('/dev/null', 'w'), lostLine), undefined);
});
