import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { withoutBuildKit } from './buildkit.ts';
import { platformArgs } from './dockerfile.ts';
import { type Staged, basesOfCopies, withCopyStages } from './copy-stages.ts';
import { processorMs } from './processor-fixture.ts';

function stagedOf(given: string, args: Record<string, string> = {}): Staged {
  const { dockerfile, documents } = withoutBuildKit(given);
  return withCopyStages(dockerfile, { documents, args, bases: new Map() });
}

test('a stage before the one that copies prepares it; every other line is as it was', () => {
  const { dockerfile, notes } = stagedOf(
    '# syntax=x\nARG A\nFROM x AS flynn-copy\nRUN a \\\n  --from=0\nFROM y\nCOPY \\\n --chown=1 --chmod=0755 \\\n # comment\n a b/ \\\n /c\nCOPY --from=0 /x /y\n',
  );
  assert.deepEqual(dockerfile.split('\n'), [
    '# syntax=x',
    'ARG A',
    'FROM x AS flynn-copy',
    'RUN a \\',
    '  --from=0',
    'FROM flynn/slug-runner AS flynn-copy--1',
    'COPY ["/a","/copied/files/a"]',
    'COPY ["/b","/copied/files/b"]',
    `RUN umask 0 && chmod -R -- 00755 '/copied/files/a' && chmod -R -- 00755 '/copied/files/b'`,
    'FROM y',
    'COPY --from=flynn-copy--1 --chown=1 ["/copied/files/a","/copied/files/b","/c"]',
    '',
    '',
    '',
    '',
    'COPY --from=0 /x /y',
    '',
  ]);
  assert.deepEqual(notes, ['line 7: COPY --chmod=0755 is prepared in a stage of its own, flynn/slug-runner']);
});

test('numbers of stages follow those that stand before them', () => {
  const { dockerfile } = stagedOf(
    'FROM x\nCOPY --chmod=1 a a\nCOPY --chmod=1 b b\nFROM y\nCOPY --from=0 x x\nFROM z\nCOPY --from=1 --chmod=1 x x\nCOPY --chown=1 --from=0 x x\nADD --chmod=2 y y\nCOPY --from=one x x\n',
  );
  assert.deepEqual(dockerfile.match(/--from=\w+(?= )/g), ['--from=2', '--from=3', '--from=2', '--from=one']);
});

test('what needs no stage stays as it is', () => {
  for (const text of ['FROM x\nCOPY a b\nRUN y --chmod=1\n', 'FROM x\nCOPY --from=0 a b']) {
    const { dockerfile, notes, words } = stagedOf(text);
    assert.deepEqual([dockerfile, notes, words().failure('parse error line 9')], [text, [], 'parse error line 9']);
    assert.equal(words().told('Step 1/2 : FROM x'), 'Step 1/2 : FROM x');
  }
});

test('lines do not change what a stage does: its steps are found done', () => {
  const text = 'FROM x\nCOPY --chmod=1 a <<E /b/\nx\nE\n';
  const steps = (dockerfile: string): string[] => stagedOf(dockerfile).dockerfile.split('\n').slice(0, 4);
  assert.deepEqual(steps(`\n\n${text}`).slice(2), steps(text).slice(0, 2));
  assert.match(steps(text)[2] ?? '', /^RUN mkdir [^\d]* printf %b 'x\\n' > /);
});

test('what is empty in a here-document is told, with how it would stay', () => {
  const { notes } = stagedOf('FROM scratch\nCOPY <<EOF /etc/nginx.conf\nroot $uri;\nEOF\n');
  assert.deepEqual(notes, [
    'line 2: COPY <<EOF is prepared in a stage of its own, flynn/slug-runner',
    'line 2: <<EOF: nothing sets $uri, which is empty there. If it is meant as it stands: <<"EOF"',
  ]);
});

const modes: [given: string, mode: string][] = [
  ['755', '00755'],
  ['0', '00000'],
  ['01777', '01777'],
  ['u=rwX,go=rX', 'u=rwX,go=rX'],
  ['-x', '-x'],
  ['a+x-w,o=u', 'a+x-w,o=u'],
];
for (const [given, mode] of modes) {
  test(`--chmod=${given} is a mode`, () => {
    assert.ok(stagedOf(`FROM x\nCOPY --chmod=${given} a b\n`).dockerfile.includes(`chmod -R -- ${mode} '`));
  });
}

const refused: [line: string, pattern: RegExp][] = [
  ['COPY --chmod=855 a b', /line 3: COPY: --chmod=855 is no mode: write up to four digits/],
  ['COPY --chmod=17777 a b', /is no mode/],
  ['COPY --chmod=u=rwx;reboot a b', /is no mode/],
  ['COPY --chmod=x a b', /is no mode/],
  ['COPY --chmod= a b', /--chmod needs a mode/],
  ['COPY --chmod a b', /COPY --chmod is not understood: flags are written --NAME=VALUE/],
  ['COPY --chmod=1 --chmod=2 a b', /--chmod is there twice/],
  ['COPY --chmod=$MODE a b', /what \$MODE is in --chmod=\$MODE only the image says .* write ENV MODE=… before it\.$/],
  ['COPY --chmod=1 $DIR/a b', /what \$DIR is in \$DIR\/a only the image says/],
  ['COPY --chmod=1 a', /it names what is copied, and where to/],
  ['COPY --chmod=1', /nothing follows it/],
  ['COPY --chmod=1 "" b', /"" is no name that can be prepared/],
  [`COPY --chmod=1 ["a\\"'\\"b", "/b"]`, /"a'b" is no name/],
  ['COPY --chmod=1 a\\\\b /b', /is no name/],
  ['COPY --chmod=1 ${A%x} /b', /"\$\{A%x\}" is not understood/],
  ['ADD --chmod=1 --from=x a /b', /ADD --from is unknown/],
  ['ADD --chmod=1 https://x.example.com/ /b/', /does not end in a plain name of a file: RUN curl/],
  [
    'COPY <<EOF /x\n$PATH\nEOF',
    /what \$PATH is in <<EOF only the image says .* If it is meant as it stands: <<"EOF"\.$/,
  ],
  ['COPY <<EOF\nx\nEOF', /it names what is copied, and where to/],
];
const secret = 's3cret"x';
for (const line of ['COPY --chmod=1 $A /b', 'COPY --chmod=$A a b', 'ADD --chmod=1 https://x.example.com/$A/ /b/']) {
  test(`${line} is refused without what is in $A`, () =>
    assert.throws(
      () => stagedOf(`FROM x\nARG A\n${line}\n`, { A: secret }),
      (error) =>
        hasCode(error, 'invalid') &&
        / with what its variables stand for: /.test(error.message) &&
        !error.message.includes('s3cret'),
    ));
}

for (const [line, pattern] of refused) {
  test(`${JSON.stringify(line)} is refused by its line, with what to write`, () =>
    assert.throws(
      () => stagedOf(`FROM x\n\n${line}\n`),
      (error) =>
        hasCode(error, 'invalid') &&
        /line 3: /.test(error.message) &&
        (pattern.test(error.message) || assert.fail(error.message)),
    ));
}

test('a Dockerfile of nothing but copies is read in no time', () => {
  const takenMs = processorMs(() => {
    const { dockerfile } = stagedOf(`FROM scratch\n${'COPY --chmod=1 a b\nFROM scratch\n'.repeat(10_000)}`);
    assert.equal(dockerfile.match(/^FROM flynn/gm)?.length, 10_000);
    stagedOf(`FROM scratch\n${'COPY <<A b\n$A ${A:-x}\nA\n'.repeat(30_000)}`);
  });
  assert.ok(takenMs < 10_000, `${takenMs} ms`);
});

test('images are asked for what they set where what is prepared has variables', () => {
  const copies = [
    'FROM a AS One\nCOPY $A b',
    'FROM b\nCOPY --chmod=1 a b\nCOPY <<"E" a\n$A\nE',
    'FROM c AS three\nFROM three\nCOPY --chmod=$M a b',
    'FROM d\nCOPY <<E a\n$A\nE\nADD --chmod=1 $A b',
    'FROM scratch\nCOPY --chmod=$M a b',
    'FROM --platform=linux/other e\nCOPY --chmod=1 a $B',
    `FROM --platform=${platformArgs()['BUILDPLATFORM']} f\nCOPY --chmod=1 a $B`,
    'FROM one\nCOPY --chmod=1 a $B\nRUN x --chmod=$M',
  ];
  const { dockerfile, documents } = withoutBuildKit(copies.join('\n'));
  assert.deepEqual(basesOfCopies(dockerfile, documents), ['c', 'd', 'f', 'a']);
});
