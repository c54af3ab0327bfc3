import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mock, test } from 'node:test';
import * as fc from 'fast-check';
import {
  formatAge,
  formatCount,
  formatSize,
  formatTable,
  paint,
  ProgressLine,
  quoteForShell,
  visible,
  visiblyPainted,
  writeTo,
} from './output.ts';
import { Capture } from './testing.ts';

test('tables have aligned columns, two spaces apart, and no trailing space', () => {
  assert.equal(
    formatTable(
      ['NAME', 'COUNT', 'NOTE'],
      [
        ['web', '12', 'fine'],
        ['a-long-name', '1', ''],
      ],
    ),
    'NAME         COUNT  NOTE\nweb          12     fine\na-long-name  1      -\n',
  );
});

test('a table without rows is its header', () => {
  assert.equal(formatTable(['A', 'B'], []), 'A  B\n');
});

test('every row of a table has as many words for awk as columns, whatever is empty', () => {
  const cell = fc.option(fc.stringMatching(/^[a-z0-9]{0,8}$/), { nil: undefined });
  fc.assert(
    fc.property(fc.array(fc.tuple(cell, cell, cell)), (rows) => {
      const lines = formatTable(['A', 'B', 'C'], rows).trimEnd().split('\n');
      assert.equal(lines.length, rows.length + 1);
      for (const line of lines) assert.equal(line.split(/ +/).length, 3, line);
    }),
  );
});

test('a cell with line breaks stays on its line', () => {
  assert.equal(formatTable(['NOTE'], [['one\n  two']]), 'NOTE\none two\n');
});

/** It would move the cursor up, clear the line, and write to the clipboard. */
const evil = 'x\u001b[1A\u001b[2K\u001b]52;c;cm0=\u0007\u009b2J\u007f';
const shown = String.raw`x\u001b[1A\u001b[2K\u001b]52;c;cm0=\u0007\u009b2J\u007f`;

test('what would speak to a terminal is shown in tables and texts, and is the same to whoever parses it', () => {
  assert.equal(formatTable(['WHO'], [[evil]]), `WHO\n${shown}\n`);
  assert.equal(formatTable(['WHO'], [['\u0085']]), 'WHO\n\\u0085\n');
  assert.equal(visible(`one\ttwo\r\n${evil}\n`), `one\ttwo\n${shown}\n`);
  assert.equal(JSON.parse(visible(JSON.stringify(evil))), evil);
  fc.assert(fc.property(fc.string({ unit: 'binary' }), (text) => assert.doesNotMatch(visible(text), /[^\P{Cc}\t\n]/u)));
});

test('on a terminal colours stay, and what only looks like one is shown; elsewhere there are none', () => {
  const terminal = new Capture();
  terminal.isTTY = true;
  const painted = paint(terminal, 'red', evil);
  assert.equal(visiblyPainted(terminal, painted), paint(terminal, 'red', shown));
  assert.equal(visiblyPainted(terminal, '\u001b[8mhidden'), String.raw`\u001b[8mhidden`);
  assert.equal(visiblyPainted(new Capture(), '\u001b[31mred'), String.raw`\u001b[31mred`);
});

test('ages are given in their largest whole unit', () => {
  const now = Date.parse('2026-01-10T00:00:00Z');
  const ages = ['2026-01-09T23:59:30Z', '2026-01-09T23:58:01Z', '2026-01-09T21:30:00Z', '2026-01-07T00:00:00Z'];
  assert.deepEqual(
    ages.map((iso) => formatAge(iso, now)),
    ['30s', '1m', '2h', '3d'],
  );
  assert.equal(formatAge(undefined, now), '-');
  assert.equal(formatAge('2026-01-10T00:00:05Z', now), '0s');
});

test('a size is told in a unit in which it is not nothing, and never as 1024 of one', () => {
  const sizes = [0, 1, 1023, 1024, 6_451, 1024 ** 2 - 1, 1024 ** 2, 44_774_195, 3 * 1024 ** 3];
  assert.deepEqual(
    sizes.map((bytes) => formatSize(bytes)),
    ['0 bytes', '1 byte', '1023 bytes', '1.0 KiB', '6.3 KiB', '1.0 MiB', '1.0 MiB', '42.7 MiB', '3072.0 MiB'],
  );
});

test('one of a thing is told without an s', () => {
  assert.deepEqual(
    [0, 1, 2].map((count) => formatCount(count, 'job')),
    ['0 jobs', '1 job', '2 jobs'],
  );
});

test('what needs no quotes gets none', () => {
  assert.equal(quoteForShell('postgres://u:p@host:5432/db'), 'postgres://u:p@host:5432/db');
  assert.equal(quoteForShell('two words'), "'two words'");
  assert.equal(quoteForShell(''), "''");
});

for (const locale of ['C', 'C.UTF-8']) {
  test(`bash in the locale ${locale} reads back exactly what was quoted`, () => {
    const value = fc.string({ unit: 'binary' }).map((text) => text.replaceAll('\0', ''));
    const awkward = fc.string({
      unit: fc.constantFrom(...Array.from('-$#`\'"\\!~*?{}()[]<>|&;=% \t\n\r\u0001\u001b\u007f\u009béx09af')),
      maxLength: 12,
    });
    fc.assert(
      fc.property(fc.array(fc.oneof(value, awkward), { minLength: 1, maxLength: 20 }), (values) => {
        const assignments = values.map((one, index) => `V${index}=${quoteForShell(one)}`).join('\n');
        const names = values.map((_, index) => `"$V${index}"`).join(' ');
        const { stdout, stderr } = spawnSync('bash', ['--norc', '-c', `${assignments}\nprintf '%s\\0' ${names}`], {
          env: { LC_ALL: locale, PATH: process.env['PATH'] },
          encoding: 'utf8',
        });
        assert.equal(stderr, '');
        assert.deepEqual(stdout.split('\0').slice(0, -1), values);
      }),
      { numRuns: 30 },
    );
  });
}

test('columns of a table stand below each other where signs take two cells', () => {
  assert.equal(
    formatTable(
      ['NAME', 'AGE'],
      [
        ['東京', '1m'],
        ['shop-x', '2m'],
      ],
    ),
    'NAME    AGE\n東京    1m\nshop-x  2m\n',
  );
});

/** What the last write leaves on the line. */
function visibleOf(output: Capture): string {
  return output.text.slice(output.text.lastIndexOf('\r') + 1).replace('\u001b[K', '');
}

test('colours are for terminals', () => {
  const output = new Capture();
  assert.equal(paint(output, 'green', 'up'), 'up');
  output.isTTY = true;
  assert.equal(paint(output, 'green', 'up'), '\u001b[32mup\u001b[39m');
  const plain = Object.assign(output, { hasColors: () => false });
  assert.equal(paint(plain, 'green', 'up'), 'up');
  assert.equal(visiblyPainted(plain, '\u001b[31mup'), String.raw`\u001b[31mup`);
});

test('progress shows on a terminal after a second, makes room for a line and leaves nothing behind', () => {
  mock.timers.enable({ apis: ['setInterval'] });
  const now = mock.method(performance, 'now', () => 0);
  try {
    const output = new Capture();
    output.isTTY = true;
    const line = new ProgressLine(output, 'scaling');
    now.mock.mockImplementation(() => 900);
    mock.timers.tick(900);
    assert.equal(output.text, '');
    now.mock.mockImplementation(() => 1_100);
    mock.timers.tick(100);
    assert.equal(visibleOf(output), '⠙ scaling 1.1s');
    line.clear();
    assert.ok(output.text.endsWith('1.1s\u001b[K\r\u001b[K'));
    mock.timers.tick(100);
    line[Symbol.dispose]();
    assert.ok(output.text.endsWith('1.1s\u001b[K\r\u001b[K'));
    const length = output.text.length;
    mock.timers.tick(1_000);
    assert.equal(output.text.length, length);
  } finally {
    mock.restoreAll();
    mock.timers.reset();
  }
});

test('progress keeps to its line, however narrow the terminal is', () => {
  mock.timers.enable({ apis: ['setInterval'] });
  const now = mock.method(performance, 'now', () => 0);
  try {
    const output = new Capture();
    output.isTTY = true;
    output.columns = 24;
    using _line = new ProgressLine(output, () => 'looking at 東京\nand its https://example.com/a.git');
    now.mock.mockImplementation(() => 1_100);
    mock.timers.tick(1_100);
    assert.equal(visibleOf(output), '⠙ looking at 東京… 1.1s');
    output.columns = 5;
    mock.timers.tick(100);
    assert.equal(visibleOf(output), '');
    // One that nobody gave a size.
    output.columns = 0;
    mock.timers.tick(100);
    assert.match(visibleOf(output), /a\.git 1\.1s$/);
  } finally {
    mock.restoreAll();
    mock.timers.reset();
  }
});

test('progress says nothing where there is no terminal', () => {
  mock.timers.enable({ apis: ['setInterval'] });
  const now = mock.method(performance, 'now', () => 0);
  try {
    const output = new Capture();
    using _line = new ProgressLine(output, 'scaling');
    now.mock.mockImplementation(() => 5_000);
    mock.timers.tick(5_000);
    assert.equal(output.text, '');
  } finally {
    mock.restoreAll();
    mock.timers.reset();
  }
});

test('writing to an output that is full waits until it has room, or is gone', async () => {
  class Slow extends Capture {
    readonly held: (() => void)[] = [];

    override _write(_chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
      this.held.push(done);
    }
  }
  const slow = new Slow({ highWaterMark: 1 });
  let isTaken = false;
  const written = writeTo(slow, 'text').then(() => (isTaken = true));
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(isTaken, false);
  slow.held[0]?.();
  await written;
  const again = writeTo(slow, 'more');
  slow.destroy();
  await again;
});
