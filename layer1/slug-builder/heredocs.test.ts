import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { withPlaces, withoutHeredocs } from './heredocs.ts';
import { processorMs } from './processor-fixture.ts';

function run(shell: string, script: string): [stdout: string, status: number | null] {
  const { stdout, status } = spawnSync(shell, ['-c', script], {
    encoding: 'utf8',
    env: { PATH: process.env['PATH'], A: 'of A' },
  });
  return [stdout, status];
}

/** What the engine hands to the shell. */
function stepOf(dockerfile: string): string {
  const { dockerfile: plain } = withoutHeredocs(dockerfile);
  const [line = '', ...others] = plain.split('\n');
  assert.ok(
    others.every((other) => other === ''),
    plain,
  );
  assert.match(line, /^RUN /);
  return line.slice('RUN '.length);
}

const alone: [what: string, body: string][] = [
  ['several commands', 'echo one\necho two'],
  ['quotes of all kinds', `echo "$A" 'it''s' "it's \\"so\\"" \`echo x\` $((1 << 3)) %d%s`],
  ['backslashes', String.raw`printf 'a\nb\\c\0101\n'` + '\necho a\\\nb \\'],
  ['a loop and a function', 'f() {\n  for x in 1 2; do\n    echo "$1 $x"\n  done\n}\nf "a b"'],
  ['a here-document of its own', "cat <<'X'\n$A \\ \" '\nX\ncat <<Y\n$A\nY"],
  ['what fails midway', 'false\necho on'],
  ['what fails at its end', 'echo x\n(exit 7)'],
  ['what ends itself', 'set -e\necho x\nfalse\necho never'],
  [
    'words of a Dockerfile, comments and blank lines',
    '# FROM x\n\nFROM() { echo FROM "$@"; }\nFROM y\nRUN() { :; }\nRUN --mount=type=ssh x\n# end',
  ],
  ['nothing', ''],
  ['letters beyond ASCII', 'echo "äöü — 日本"\t# x'],
];
for (const [what, body] of alone) {
  test(`a here-document with ${what} does in one line what it does as a script`, () => {
    const step = stepOf(`RUN <<EOF\n${body}\nEOF\n`);
    assert.equal(stepOf(`RUN <<'EOF'\n${body}\nEOF`), step);
    for (const shell of ['sh', 'bash']) assert.deepEqual(run(shell, step), run(shell, `${body}\n`), shell);
  });
}

test('one that is given to a command is the shell’s to read, by its own rules', () => {
  const body = 'echo "$A" \'x\' `echo y` \\$A\n\tindented';
  for (const [head, end] of [
    ['cat <<EOF', 'EOF'],
    ['cat <<"EOF"', 'EOF'],
    ['cat <<-EOF | tr a-z A-Z', '\tEOF'],
    ['echo before && cat <<EOF && echo after', 'EOF'],
    ['sh <<EOF', 'EOF'],
  ] as const) {
    for (const shell of ['sh', 'bash']) {
      assert.deepEqual(
        run(shell, stepOf(`RUN ${head}\n${body}\n${end}\n`)),
        run(shell, `${head}\n${body}\nEOF\n`),
        head,
      );
    }
  }
  assert.deepEqual(run('sh', stepOf('RUN <<-EOF\n\techo a\n\t\techo b\n\tEOF\n')), ['a\nb\n', 0]);
});

test('any text comes out of the line as it was, and none of it is anything to the engine', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 200 }), (text) => {
      // A file holds neither halves of letters nor, where it is text, NUL; and no line of it ends the document.
      const body = text.toWellFormed().replace(/[\0]/g, '').replaceAll('EOF', '');
      const step = stepOf(`RUN cat <<'EOF'\n${body}\nEOF\n`);
      assert.doesNotMatch(step, /[\n\r\\<]$|<<|\\$/);
      const [printed] = run('sh', step);
      assert.equal(printed, `${body}\n`);
    }),
    { numRuns: 25, seed: 7 },
  );
});

test('every other line stays where it was, flags stay, and what was done is told', () => {
  const { dockerfile, notes } = withoutHeredocs(
    'FROM x\nRUN --mount=type=cache,target=/c \\\n  <<EOF\na\n\nb\nEOF\nCOPY a b\n',
  );
  assert.deepEqual(dockerfile.split('\n'), [
    'FROM x',
    String.raw`RUN --mount=type=cache,target=/c eval "$(printf %b 'a\n\nb\n#' || echo exit 1)"`,
    '',
    '',
    '',
    '',
    '',
    'COPY a b',
    '',
  ]);
  assert.deepEqual(notes, ['line 2: RUN <<EOF goes to the shell of the step as one line']);
});

test('where there is nothing to read it with the step fails', () => {
  const step = stepOf('RUN <<EOF\necho x\nEOF\n');
  assert.deepEqual(run('sh', `printf() { return 127; }\n${step}`), ['', 1]);
});

test('what the engine says of a step names the here-document, also where it was shortened', () => {
  const long = "set -e\n# … and 'so' on\n".repeat(200);
  const text = `FROM x\nRUN <<EOF\na\nEOF\nRUN <<EOF\na\n# b\nEOF\nRUN <<EOF\n${long}c\nEOF\nRUN <<EOF\n${long}d\nEOF\nRUN <<EOF\nx\nEOF\nRUN <<EOF\nx\nEOF\n`;
  const { dockerfile } = withoutHeredocs(text);
  const said = dockerfile.split('\n').flatMap((line, at) => (line.startsWith('RUN ') ? [[at + 1, line.slice(4)]] : []));
  const placed = said.map(([place, command]) => {
    const whole = `The command '/bin/sh -c ${command}' returned a non-zero code: 7`;
    const told =
      whole.length > 2_000 ? `${whole.slice(0, 1_500)} [… ${whole.length - 2_000} more …] ${whole.slice(-500)}` : whole;
    const [, named] =
      /-c the here-document of line (\d+)' returned a non-zero code: 7$/.exec(withPlaces(told, dockerfile)) ?? [];
    return [place, Number(named ?? 0)];
  });
  assert.deepEqual(placed, [
    [2, 2],
    [5, 5],
    [9, 9],
    [412, 412],
    // Two are the same.
    [815, 0],
    [818, 0],
  ]);
  assert.equal(withPlaces("The command 'x' returned", dockerfile), "The command 'x' returned");
});

const staying: [what: string, dockerfile: string][] = [
  ['a script that names its program', 'RUN <<EOF\n#!/usr/bin/env python3\nprint(1)\nEOF\n'],
  ['several of them', 'RUN cat <<A <<B\nx\nA\ny\nB\n'],
  ['one without an end', 'RUN <<EOF\nx\n'],
  ['one whose end is indented', 'RUN <<EOF\nx\n\tEOF\n'],
  ['one glued to what follows', 'RUN cat <<EOF>x\nx\nEOF\n'],
  ['one of COPY without an end', 'COPY <<EOF /x\nx\n EOF\n'],
  ['one of a list of COPY', 'COPY ["<<EOF", "/x"]\nRUN x\n'],
  ['one of a list', 'RUN ["cat"] <<EOF\nx\nEOF\n'],
  ['one for a shell that is none', 'SHELL ["python3", "-c"]\nRUN <<EOF\nx\nEOF\n'],
  ['one that is longer than a line may be', `RUN <<EOF\n${'x'.repeat(70_000)}\nEOF\n`],
  ['a here-string', 'RUN cat <<<EOF\nRUN x\nEOF\n'],
];
for (const [what, text] of staying) {
  test(`${what} stays as it is`, () =>
    assert.deepEqual(withoutHeredocs(text), { dockerfile: text, notes: [], documents: new Map() }));
}

test('those of COPY and ADD are taken out, whatever SHELL names, and nothing in them is an instruction', () => {
  const text = `SHELL ["x"]\nCOPY --chown=1 \\\n  <<A.txt <<-'b' "/x y"\nRUN <<C\n\tA.txt\nA.txt\n\t\tCOPY <<D /\n\tb\nADD x <<E /y\r\nx\r\nE\r\nCMD x\n`;
  const { dockerfile, documents, notes } = withoutHeredocs(text);
  assert.equal(
    dockerfile,
    `SHELL ["x"]\nCOPY --chown=1 \\\n  <<A.txt <<-'b' "/x y"\n\n\n\n\n\nADD x <<E /y\r\n\n\nCMD x\n`,
  );
  assert.deepEqual(notes, []);
  assert.deepEqual(
    [...documents],
    [
      [
        2,
        [
          { name: 'A.txt', isExpanded: true, content: 'RUN <<C\n\tA.txt\n' },
          { name: 'b', isExpanded: false, content: 'COPY <<D /\n' },
        ],
      ],
      [9, [{ name: 'E', isExpanded: true, content: 'x\r\n' }]],
    ],
  );
});

test('shells that SHELL names take it as well', () => {
  const shell = 'SHELL ["/bin/bash", "-o", "pipefail", "-c"]\nRUN <<EOF\nx\nEOF\n';
  assert.equal(withoutHeredocs(shell).notes.length, 1);
});

test('a Dockerfile of nothing but here-documents is read in no time', () => {
  const takenMs = processorMs(() => {
    assert.equal(withoutHeredocs('RUN <<A\nA\n'.repeat(50_000)).notes.length, 50_000);
    withoutHeredocs('RUN <<A\n'.repeat(100_000));
  });
  assert.ok(takenMs < 10_000, `${takenMs} ms`);
});
