/** What COPY and ADD do with --chmod and here-documents, made by a real engine as hosts' agents have it make images. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { hasCode } from '@flynn/kit/errors';
import { type Made, make, of, runner, source, withEngine, type Source } from './engine-build-fixture.ts';

const forms: [what: string, dockerfile: string, files: Record<string, string>, env?: Record<string, string>][] = [
  [
    'a file, to a name and to a folder',
    'FROM scratch\nCOPY --chmod=755 run.sh /run\nCOPY --chmod=0400 --chown=7:8 run.sh /in/\n',
    { run: '755 0:0 run', in: '755 7:8 directory', 'in/run.sh': '400 7:8 run' },
  ],
  [
    'a folder with all in it',
    'FROM scratch\nCOPY --chmod=751 conf /x\n',
    {
      x: '755 0:0 directory',
      'x/a.json': '751 0:0 a',
      'x/.b.json': '751 0:0 b',
      'x/c.txt': '751 0:0 c',
      'x/deep': '751 0:0 directory',
      'x/deep/d.json': '751 0:0 d',
      'x/link.json': '777 0:0 symlink',
    },
  ],
  [
    'a mode in letters, which is made of the one before, and wildcards',
    'FROM scratch\nCOPY --chmod=u=rwX,go=rX conf/*.json /x/\n',
    {
      x: '755 0:0 directory',
      'x/a.json': '644 0:0 a',
      'x/.b.json': '755 0:0 b',
      'x/link.json': '644 0:0 a',
    },
  ],
  [
    'letters that say not whose, and special bits',
    'FROM scratch\nCOPY --chmod=+w conf/a.json /a\nCOPY --chmod=4755 run.sh /s\n',
    { a: '622 0:0 a', s: '4755 0:0 run' },
  ],
  [
    'one wildcard that fits one file',
    'FROM scratch\nCOPY --chmod=500 conf/*.txt /app.txt\n',
    { 'app.txt': '500 0:0 c' },
  ],
  [
    'names in a list, of all of the source',
    'FROM scratch\nCOPY --chmod=700 ["run.sh", "conf/c.txt", "/in it/"]\nCOPY --chmod=640 . /all\n',
    {
      'in it': '755 0:0 directory',
      'in it/run.sh': '700 0:0 run',
      'in it/c.txt': '700 0:0 c',
      'all/run.sh': '640 0:0 run',
      'all/conf/deep': '640 0:0 directory',
    },
  ],
  [
    'from a stage, by its name and by its number, also of stages behind those that are made',
    `FROM ${runner} AS one
RUN mkdir /out && echo -n one > /out/x && ln -s x /out/y
FROM scratch AS two
COPY --from=one --chmod=555 /out/x /x
COPY --from=0 /out/x /plain
FROM scratch
COPY --from=1 --chmod=111 /x /x
COPY --from=1 /x /as-it-was
COPY --chmod=710 --from=0 /out/* /out/
COPY --from=two /plain /plain
`,
    {
      x: '111 0:0 one',
      'as-it-was': '555 0:0 one',
      out: '755 0:0 directory',
      'out/x': '710 0:0 one',
      'out/y': '710 0:0 one',
      plain: '644 0:0 one',
    },
  ],
  [
    'variables in a mode and a name',
    'ARG M=705\nFROM scratch AS a\nENV NAME=run\nFROM a\nARG M\nARG KIND=x\nCOPY --chmod=$M ${NAME}.${KIND:-sh} /$NAME\n',
    { run: '751 0:0 run' },
    { M: '751', KIND: '' },
  ],
  [
    'a here-document',
    'FROM scratch\nCOPY <<EOF /etc/x\none\n# two\n  three \\\\ \'quoted\' "too" `x` $(x) %d\nEOF\nCMD ["/etc/x"]\n',
    { etc: '755 0:0 directory', 'etc/x': `644 0:0 one\n# two\n  three \\ 'quoted' "too" \`x\` $(x) %d\n` },
  ],
  [
    'here-documents with and without variables, and tabs that go',
    'FROM scratch\nARG A=a\nENV B="b ${A}"\nCOPY <<-"Q" <<-U /x/\n\t\tone $A \\$A\n\tQ\n\t\t$A-${B}-\\$A-${NO:-none}-$NO.\n  two\nU\n',
    { 'x/Q': '644 0:0 one $A \\$A\n', 'x/U': '644 0:0 1-b 1-$A-none-.\n  two\n' },
    { A: '1' },
  ],
  [
    'here-documents with files beside them, a mode and an owner',
    "FROM scratch\nADD --chown=9:9 --chmod=+x run.sh <<robots.txt <<'b-c' /x/\nFROM y\nCOPY --chmod=999 z /\nrobots.txt\nb-c \nb-c\n",
    {
      'x/run.sh': '755 9:9 run',
      'x/robots.txt': '755 9:9 FROM y\nCOPY --chmod=999 z /\n',
      'x/b-c': '755 9:9 b-c \n',
    },
  ],
  [
    'what the image sets that a stage begins with, before what ARG says',
    `FROM ${runner}\nARG LANG=x NEW=new\nCOPY <<EOF /made/x\n$LANG $NEW $NOTHING.\nEOF\n`,
    { 'made/x': '644 0:0 C.UTF-8 new .\n' },
  ],
  ['an empty here-document', 'FROM scratch\nCOPY <<EOF /x\nEOF\n', { x: '644 0:0 ' }],
];
for (const [what, dockerfile, files, env] of forms) {
  test(`${what}: what is in the image is what BuildKit would have made of it`, () =>
    withEngine(async (fixture) => {
      const made = of(await make(fixture, dockerfile, { source, ...(env === undefined ? {} : { env }) }));
      assert.deepEqual(
        Object.fromEntries(Object.keys(files).map((path) => [path, made[path]])),
        files,
        JSON.stringify(made),
      );
      assert.deepEqual(
        Object.keys(made).filter((path) => path.includes('copied')),
        [],
      );
    }));
}

test('a here-document of hundreds of kilobytes comes out as it is', () =>
  withEngine(async (fixture) => {
    const content = 'an ä, a \\, a \' and a "\n'.repeat(20_000);
    const { files } = await make(fixture, `FROM scratch\nCOPY <<'EOF' /x\n${content}EOF\n`);
    assert.equal(files.get('x')?.content, content);
  }));

test('what is in variables is not in what people read of a build, in however many pieces the engine says it', () =>
  withEngine(async (fixture) => {
    const content = '$SECRET, '.repeat(4_000);
    const dockerfile = `FROM ${runner}\nARG SECRET\nCOPY --chmod=600 <<EOF /x\n${content}\nEOF\nCOPY $SECRET /y\n`;
    const made = await make(fixture, dockerfile, { source: { 's3cret-1': 'y' }, env: { SECRET: 's3cret-1' } });
    assert.match(made.files.get('x')?.content ?? '', /^s3cret-1, s3cret-1, /);
    assert.match(made.lines.join('\n'), /s3cret/);
    assert.doesNotMatch(made.told.join('\n'), /s3cret/);
    assert.match(made.told.join('\n'), /: what line 3 copies is prepared\n[^]*: COPY --chmod=600 <<EOF \/x\n/);
  }));

test('the same content is a step that is there already, and the same file without it; another mode, content or value is not', () =>
  withEngine(async (fixture) => {
    const dockerfile = (mode: string, content: string, before = ''): string =>
      `FROM scratch\nENV MARK=${fixture.cluster}${before}\nARG A\nCOPY --chmod=${mode} run.sh <<EOF /x/\n${content}\nEOF\n`;
    const last = ({ lines }: Made): string => lines.filter((line) => !line.startsWith('Success')).at(-2) ?? '';
    const first = await make(fixture, dockerfile('755', 'x $A'), { source, env: { A: '1' } });
    assert.doesNotMatch(last(first), /Using cache/);
    // Lines before it, and files that it does not copy, may change.
    const moved = `# one\n\n${dockerfile('755', 'x $A')}`;
    const again = await make(fixture, moved, {
      source: { ...source, other: 'other' },
      env: { A: '1' },
      cache: 'again',
      app: 'app',
    });
    assert.match(last(again), /Using cache/);
    const anew = await make(fixture, dockerfile('755', 'x $A', ' OTHER=1'), {
      source,
      env: { A: '1' },
      cache: 'anew',
      app: 'app',
    });
    assert.doesNotMatch(last(anew), /Using cache/);
    assert.deepEqual(anew.top, first.top);
    assert.deepEqual(of(anew), of(first));
    const changed: [string, string, Source, string][] = [
      ['700', 'x $A', source, '1'],
      ['755', 'y $A', source, '1'],
      ['755', 'x $A', { ...source, 'run.sh': 'other' }, '1'],
      ['755', 'x $A', source, '2'],
    ];
    for (const [at, [mode, content, files, A]] of changed.entries()) {
      const made = await make(fixture, dockerfile(mode, content), {
        source: files,
        env: { A },
        cache: `changed${at}`,
        app: 'app',
      });
      assert.doesNotMatch(last(made), /Using cache/, String(at));
      assert.notDeepEqual(of(made), of(first));
    }
  }));

const failures: [what: string, copy: string, files: Source, pattern: RegExp][] = [
  ['a file that is not there', 'COPY --chmod=755 nothing /x', {}, /COPY failed: .*nothing/],
  [
    'an archive for ADD',
    'ADD --chmod=755 *.bin /x/',
    { 'a.bin': gzipSync('x') },
    /\/a\.bin is an archive: ADD unpacks[^]*What line 3 of the Dockerfile copies could not be prepared: non-zero code: 1$/,
  ],
  [
    'a link that leads out of what a wildcard names',
    'COPY --chmod=755 conf/* /x/',
    { 'conf/out': { link: '/etc/passwd' }, 'conf/in': 'x' },
    /\/conf\/out is a link to \/etc\/passwd, which is not in the folder[^]*What line 3 of/,
  ],
  [
    'a link that leads out of the folder of a wildcard, beside which nothing is copied',
    'COPY --chmod=755 app/bin/* /x/',
    { 'app/bin/cli': { link: '../pkg/cli.js' }, 'app/pkg/cli.js': 'x' },
    /\/app\/bin\/cli is a link to \.\.\/pkg\/cli\.js, which is not in the folder that is copied: name[^]*What line 3 of/,
  ],
  [
    'a link to nothing',
    'COPY --chmod=755 conf/* /x/',
    { 'conf/broken': { link: 'nothing' } },
    /\/conf\/broken is a link to nothing, which is not in the folder that is copied: name[^]*What line 3 of/,
  ],
  [
    'a file that is not there and that a variable names',
    'ARG S=s3\nARG T=${S}cret\nCOPY --chmod=755 $T /x/',
    {},
    /^(?![^]*s3cret)[^]*What line 5 of the Dockerfile copies could not be prepared: see that all it names is there\./,
  ],
  [
    'an instruction behind it that is none',
    'COPY --chmod=755 conf/* /x/\nRUM x',
    {},
    /line 4: unknown instruction: RUM/,
  ],
];
for (const [what, copy, files, pattern] of failures) {
  test(`${what} fails the build, with its line`, () =>
    withEngine(async (fixture) => {
      await assert.rejects(
        make(fixture, `FROM scratch\nENV A=${fixture.cluster}\n${copy}\n`, { source: { ...source, ...files } }),
        (error) => hasCode(error, 'invalid') && (pattern.test(error.message) || assert.fail(error.message)),
      );
    }));
}
