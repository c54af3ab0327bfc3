import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { formatEnvFile, readEnvFile } from './env-file.ts';

function read(text: string): Readonly<Record<string, string>> {
  const found = readEnvFile(text);
  assert.ok(found.is === 'read', JSON.stringify(found));
  return found.values;
}

test('a .env file is read with its comments, quotes and line ends', () => {
  const text = [
    '# a comment, with an = sign',
    'PLAIN=value',
    '  export SPACED = around  # why',
    'EMPTY=',
    'EMPTY_TOO= # nothing',
    'PASSWORD=a#b$c',
    `APOSTROPHE=it's`,
    "SINGLE='as is \\n $X \"' # said",
    String.raw`DOUBLE="tab\t, line\nbreak, \"quoted\", \\, \$X"`,
    'LINES="one',
    'A=not a variable',
    'three"',
    'UNICODE=é漢',
    'WINDOWS=yes\r',
    'LAST=1',
  ].join('\n');
  assert.deepEqual(read(`\u{feff}${text}`), {
    PLAIN: 'value',
    SPACED: 'around',
    EMPTY: '',
    EMPTY_TOO: '',
    PASSWORD: 'a#b$c',
    APOSTROPHE: "it's",
    SINGLE: 'as is \\n $X "',
    DOUBLE: 'tab\t, line\nbreak, "quoted", \\, $X',
    LINES: 'one\nA=not a variable\nthree',
    UNICODE: 'é漢',
    WINDOWS: 'yes',
    LAST: '1',
  });
});

test('a bare value has runs of spaces of any length in it', { timeout: 60_000 }, () => {
  const gap = ' '.repeat(100_000);
  assert.deepEqual(read(`A=x${gap}y${gap}#${gap}z\nB=x${gap}y${gap}\nC=${gap}# no`), {
    A: `x${gap}y`,
    B: `x${gap}y`,
    C: '',
  });
});

test('what is in single quotes in a .env file comes out as it went in', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: 'binary' }).filter((value) => !value.includes("'")),
      (value) => {
        assert.deepEqual(read(`A=1\nKEY='${value}'\nZ=2\n`), { A: '1', KEY: value, Z: '2' });
      },
    ),
  );
});

test('a line of a .env file that sets nothing is told by its number and name, and its value is not', () => {
  const problem = (text: string) => {
    const found = readEnvFile(text);
    return found.is === 'wrong' ? found.problem : undefined;
  };
  assert.match(problem('A=1\nsecret here\n') ?? '', /^line 2 of the file sets nothing: (?!.*secret)/);
  assert.match(problem('A="never closed\n') ?? '', /^line 1 \(A=…\) of the file (?!.*never)/);
  assert.match(problem(`B=2\n\nexport A= 'never closed\n`) ?? '', /^line 3 \(A=…\) of the file (?!.*never)/);
  assert.equal(problem('# nothing\n\n'), undefined);
});

test('a .env file that was written is read as it was, whatever the values hold', () => {
  const name = fc.stringMatching(/^[A-Z_][A-Z0-9_]{0,8}$/);
  const value = fc.string({ unit: 'binary' }).filter((text) => !text.includes('\0'));
  fc.assert(
    fc.property(fc.dictionary(name, value), (values) => {
      assert.deepEqual({ ...read(formatEnvFile(values)) }, { ...values });
    }),
    { numRuns: 500 },
  );
  const written = formatEnvFile({ PLAIN: 'a/b', SPACED: 'a b #c $d', QUOTED: `it's "so"\n`, EMPTY: '' });
  assert.equal(written, `EMPTY=''\nPLAIN=a/b\nQUOTED="it's \\"so\\"\\n"\nSPACED='a b #c $d'\n`);
});
