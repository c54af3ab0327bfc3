import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { withoutBuildKit } from './buildkit.ts';
import { basesOfCopies, withCopyStages } from './copy-stages.ts';
import { argsOf, ownImagesOf, platformArgs, saysCommand, withImages, withPlainBases } from './dockerfile.ts';
import { createDockerignore } from './dockerignore.ts';

const dockerfile = `# FROM flynn/commented
ARG VERSION=1
FROM --platform=linux/amd64 flynn/slug-builder AS build
  arg NAME OTHER="x y"
COPY --from=flynn/image:abc --chown=1:1 /a /b
FROM debian:13
COPY --from=build /flynn/node /x
from flynn/slug-builder
`;

test('images of the platform get the names they have on the host, everything else stays', () => {
  assert.deepEqual(ownImagesOf(dockerfile), ['flynn/slug-builder', 'flynn/image:abc']);
  const named = withImages(
    dockerfile,
    new Map([
      ['flynn/slug-builder', 'flynn/slug-builder:1'],
      ['flynn/image:abc', 'x/image:2'],
    ]),
  );
  assert.equal(
    named,
    dockerfile
      .replace('flynn/slug-builder AS', 'flynn/slug-builder:1 AS')
      .replace('from flynn/slug-builder\n', 'from flynn/slug-builder:1\n')
      .replace('--from=flynn/image:abc', '--from=x/image:2'),
  );
});

test('arguments in FROM are put in their place', () => {
  const text =
    'ARG V=13\nARG BASE="debian"\nFROM ${BASE}:$V AS one\nFROM ${NONE:-one}\nCOPY --from=0 /a /b\nCOPY --from=ONE /a /b\n';
  assert.equal(
    withPlainBases(text, { V: '12' }),
    text.replace('${BASE}:$V', 'debian:12').replace('${NONE:-one}', 'one'),
  );
  const plain = `FROM scratch\nFROM r.example.com:5000/a/b:1@sha256:${'a'.repeat(64)}\n`;
  assert.equal(withPlainBases(plain, {}), plain);
});

test('arguments are made of those before them, as they are given', () => {
  const phoenix = [
    'ARG ELIXIR=1.17 OTP=27',
    'ARG BUILDER="hexpm/elixir:${ELIXIR}-erlang-${OTP}"',
    "ARG LITERAL='${OTP}'",
    'FROM ${BUILDER} AS builder',
    'FROM $BUILDER',
  ].join('\n');
  assert.match(withPlainBases(phoenix, {}), /^FROM hexpm\/elixir:1\.17-erlang-27 AS builder$/m);
  assert.match(withPlainBases(phoenix, { OTP: '26' }), /^FROM hexpm\/elixir:1\.17-erlang-26$/m);
  assert.throws(() => withPlainBases(`${phoenix}\nFROM $LITERAL`, {}), /"\$LITERAL" in FROM is not understood/);
  assert.throws(() => withPlainBases('ARG A=99\nARG B=${A}\nFROM $B', {}), /no name of an image/);
});

test('what goes on over several lines is one, at the place of its first, as the engine puts it together', () => {
  const text =
    '# syntax=x\nFROM debian:13\r\n  RUN sqlite3 x "SELECT * \\\n# comment\n\n  FROM users" \\ \n && echo \\\n  # no\n\tx\\\\ \nCMD x';
  assert.equal(
    withPlainBases(text, {}),
    '\nFROM debian:13\nRUN sqlite3 x "SELECT *   FROM users"  && echo \tx\\\\\n\n\n\n\n\n\nCMD x',
  );
  const long = `FROM x\nRUN ${'echo a && \\\n'.repeat(10_000)}true\nUSER y`;
  assert.equal(withPlainBases(long, {}), long);
});

/** What the engine is given. */
function finished(given: string, args: Record<string, string> = {}): string {
  const { dockerfile: understood, documents } = withoutBuildKit(given);
  return withCopyStages(withPlainBases(understood, args), { documents, args, bases: new Map() }).dockerfile;
}

test('no name leads to what the engine has of other apps', () => {
  const bad = [
    'FROM 9944ff86f2a9',
    'FROM 9',
    'FROM cafe',
    `FROM sha256:${'a'.repeat(64)}`,
    'FROM flynn-flynn/build:app',
    'FROM FLYNN-flynn/image:app',
    'FROM docker.io/flynn-flynn/image:app',
    'ARG B=99\nFROM $B',
    'ARG C=flynn-\nFROM ${C}flynn/build:x',
    'FROM ${B:+99}x',
    'FROM "99"',
    'FROM \\\n 99',
    'FR\\\nOM 99',
    '# escape=`\nFROM `\n99',
    '# syntax=x\n# escape=`\nFR`\nOM 99',
    'FROM x\nRUN a \\\\\nFROM 99',
    'FROM x\nRUN a \\\\ \n\n  # b\n from 99',
    'FROM x\nRUN a \\\u00a0\nCOPY --from=cafe12 / /x',
    // The engine takes quotes and backslashes off flags, and what it takes for a space is one byte.
    'FROM x\nCOPY --fr\\om=cafe12 / /x',
    'FROM x\nCOPY --fr"om"=cafe12 / /x',
    "FROM x\nCOPY --from''=cafe12 / /x",
    'FROM x\nCOPY --from="cafe12" / /x',
    'FROM x\nCOPY --chown="1 --from=2" --from=cafe12 / /x',
    'FROM x\nCOPY --fr\\\nom=cafe12 / /x',
    'FROM x\nCOPY --chown=1\u00e0--from=cafe12 / /x',
    'FROM x\nCOPY\v--from=cafe12 / /x',
    'FROM x\nCOPY \f--from=cafe12 / /x',
    'FROM x\nCOPY\t--chown=1\t--from=cafe12 / /x',
    'FROM x\nCOPY --from cafe12 / /x',
    'FROM x\nCOPY --from=1 --from=cafe12 / /x',
    'FROM x\nCOPY --link --from=cafe12 / /x',
    'FROM x\ncopy --from=cafe12 / /x',
    'FROM x\nADD --from=99 / /x',
    'FROM x\nCOPY --from=123456789012345678901 / /x',
    // What is a space to people, and none to engines.
    ...['\u0085', '\u00a0', '\u1680', '\u2003', '\u2028', '\u3000', '\ufeff'].flatMap((space) => [
      `FROM x\nCOPY --chmod=755 ${space}--from=cafe12 /etc /x`,
      `FROM x\nCOPY --chmod=755 ${space}--from=flynn-c/build:abc / /x`,
      `FROM x\nCOPY --chmod=755 ${space} --from=127.0.0.1:5000/x / /x`,
      `FROM x\nCOPY ${space}--from=cafe12 <<EOF / /x\nEOF`,
      `FROM x\nCOPY${space} --chmod=1 --from=cafe12 / /x`,
      `FROM x\nADD ${space}--from=cafe12 https://x.example.com/a /x`,
    ]),
    // In a stage its name is no stage yet, nor is that of a later one.
    'FROM x AS cafe\nCOPY --from=cafe / /x',
    'FROM x\nCOPY --from=cafe / /x\nFROM x AS cafe',
    'FROM x\nRUN echo \\\nFROM x AS cafe\nCOPY --from=cafe / /x',
    'FROM x\nRUN cat <<"FROM x AS cafe"\nFROM x AS cafe\nFROM y\nCOPY --from=cafe / /x',
    `FROM x\nRUN : <<${'"'.repeat(40)}'FROM debian:12'\nFROM debian:12 AS cafe12\nFROM debian:12\nCOPY --from=cafe12 / /x`,
    `FROM x\nRUN : <<${'"'.repeat(40)}'FROM debian:12'\nFROM debian:12\nFROM debian:12 AS cafe12\nFROM debian:12\nCOPY --from=cafe12 / /x`,
    'FROM x\nCOPY [a] <<CMD /x/\nFROM debian:12 AS cafe12\nFROM debian:12\nCMD\nCOPY --from=cafe12 / /x',
    `FROM x\nRUN cat <<x.y\nFROM y AS cafe12\nFROM y\nRUN ${'echo long enough && \\\n'.repeat(4_000)}\\\nx.y\nCOPY --from=cafe12 / /x`,
    ...['CMD', '"CMD"', '-"\tCMD"', 'C\\MD', '$"CMD"', '\ufeffCMD', "'CMD'\u00a0x", 'CMD < a', '""'].map(
      (name) => `FROM x\nRUN : 3<<${name}\nFROM y AS cafe12\nFROM y\n\nCMD\nCOPY --from=cafe12 / /x`,
    ),
    'FROM x A\u017f cafe\nFROM cafe',
    'FROM x AS caf\u00e9\nFROM caf\u00e9',
    'FROM --platform=linux/amd64\u00a099',
    'FROM --platf\\orm=linux/amd64 99',
    'FROM x\nONBU\u0130LD COPY --from=cafe12 / /x',
    'FROM x\n\u00a0ONBUILD COPY --from=cafe12 / /x',
    // The engine asks registries from the host's own network.
    'FROM 127.0.0.1:5000/x',
    'FROM localhost/x',
    'FROM LOCALHOST:80/x',
    'FROM x.localhost:80/x',
    'FROM 127.1:80/x',
    'FROM 0x7f.1:80/x',
    'FROM 2130706433:80/x',
    'FROM 0X7F000001/x',
    'FROM 0x7F.1/x',
    'FROM x\nCOPY --from=0X7f000001/x / /x',
    'FROM 169.254.169.254/x',
    'FROM x\nCOPY --from=100.64.0.1:5000/x / /x',
    '\uFEFF# escape=`\nFR`\nOM 99',
    'FROM x\nCOPY --from=9944ff86f2a9 / /x',
    'FROM x\nCOPY \\\n --from=flynn-flynn/build:app / /x',
    'FROM x\nCOPY --from=$B / /x',
    'FROM x\nONBUILD COPY --from=99 / /x',
    'FROM x AS y\nFROM --platform=linux/amd64 99',
  ];
  for (const text of bad) {
    assert.throws(
      () => finished(text, { B: '99' }),
      (error) => hasCode(error, 'invalid'),
      JSON.stringify(text),
    );
  }
});

test('what was written for the engine is looked at once more', () => {
  for (const bad of [
    'FROM cafe12',
    'FROM x\nCOPY --from=cafe12 / /x',
    'FROM x\nCOPY --from=1 / /x',
    'FROM 127.0.0.1:5000/x',
  ])
    assert.throws(
      () => withCopyStages(bad, { documents: new Map(), args: {}, bases: new Map() }),
      (error) => hasCode(error, 'invalid'),
      bad,
    );
});

test('flags are taken without their quotes, and stages that have ended by their names', () => {
  const text =
    'FROM x AS cafe\nFROM 10.0.0.5:5000/y as Two\nCOPY --chown="app:app"  --from=Cafe \\\n  "a b" /c\nADD \'--x\' /y\nCOPY --from=0 a b\nFROM two';
  assert.equal(
    withPlainBases(text, {}),
    'FROM x AS cafe\nFROM 10.0.0.5:5000/y as Two\nCOPY --chown=app:app --from=Cafe "a b" /c\n\nADD \'--x\' /y\nCOPY --from=0 a b\nFROM two',
  );
});

test('what is written to take long is read in no time', () => {
  const begun = process.threadCpuUsage();
  const many = 300_000;
  for (const text of [
    '\n'.repeat(3 * many),
    '# x\n'.repeat(many),
    `RUN a${' '.repeat(3 * many)}b`,
    `RUN a${'\\\\\n'.repeat(many)}b`,
    `RUN ${'<<'.repeat(many)}`,
    `RUN ${'<<a '.repeat(many)}`,
    `RUN <<${'a '.repeat(many)}\\\n${'a '.repeat(many)}b`,
    `RUN <<${'a '.repeat(many)}${'\nUSER a'.repeat(many / 10)}`,
    `ADD $${'a'.repeat(3 * many)} b`,
  ])
    try {
      const plain = withPlainBases(`FROM x\n${text}\n`, {});
      withCopyStages(plain, { documents: new Map(), args: {}, bases: new Map() });
      assert.deepEqual(ownImagesOf(plain), []);
      basesOfCopies(plain, new Map());
    } catch (error) {
      assert.ok(hasCode(error, 'invalid'), String(error));
    }
  // Of the processor's time: others may have it meanwhile. Read again for each character, one of these takes minutes.
  const { user, system } = process.threadCpuUsage(begun);
  assert.ok(user + system < 10_000_000);
});

test('here-documents may be called nearly anything', () => {
  const text =
    'FROM x\nCOPY <<user.conf /x\n\n\nCOPY <<env <<"run" /x/\nRUN echo $((1 <<2)) $((1 <<ADD)) <<<from\nRUN cat <<from.txt';
  assert.equal(withPlainBases(text, {}), text);
});

test('what follows << in an honest step is no document', () => {
  const text = [
    'FROM x',
    'RUN sed "s/<<ENV name>>/y/" f && grep "<<RUN " f && grep "<<" CMD f; cat <<< a << b',
    "RUN awk '{ print 1 <<USER }' f; echo $((1 <<CMD)) <<CMD.x",
    'ENV name=<<x',
    'USER app',
    '',
    'CMD run',
    'RUN x',
  ].join('\n');
  assert.equal(finished(text), text);
});

test('the line is that which people wrote', () => {
  const text = 'FROM x\nCOPY --chmod=1 a b\nADD https://x.example.com/a /b\n\nRUN : <<C\\MD\nCMD\n';
  assert.throws(() => finished(text), /line 5: /);
});

test('what no engine knows is told by its line', () => {
  assert.throws(() => withPlainBases('FROM x\n\nRUM x', {}), /line 3: unknown instruction: RUM/);
  assert.throws(() => withPlainBases('FROM x\nCOPY --exclude=a a b', {}), /line 2: COPY --exclude is unknown/);
  assert.throws(() => withPlainBases('FROM x\nCOPY --chown="a a b', {}), /line 2: COPY .* is not understood/);
});

test('only declared arguments are given: what is given is in the image for everybody to read', () => {
  const env = { VERSION: '2', NAME: 'n', OTHER: 'o', SECRET: 's', y: 'no' };
  assert.deepEqual(argsOf('FROM x\nARG A\n', env), {});
  assert.deepEqual(argsOf(dockerfile, env), { VERSION: '2', NAME: 'n', OTHER: 'o' });
});

test('arguments may be declared over several lines, with comments between them', () => {
  const text =
    'ARG VERSION=1 \\\n  # which one\n  NAME=slim \\\r\n\tOTHER\nFROM x:$VERSION-$NAME\nRUN echo \\\n  ARG SECRET\n';
  const args = argsOf(text, { VERSION: '2', NAME: 'n', OTHER: 'o', SECRET: 's', which: 'no' });
  assert.deepEqual(args, { VERSION: '2', NAME: 'n', OTHER: 'o' });
  assert.match(withPlainBases(text, args), /^FROM x:2-n$/m);
});

test('the arguments that BuildKit gives by itself are there: for FROM in any case, for steps that declare them', () => {
  const text = 'FROM --platform=$BUILDPLATFORM go:${TARGETARCH}\nARG TARGETARCH TARGETVARIANT\nRUN make\n';
  const platform = platformArgs('arm64');
  assert.equal(
    withPlainBases(text, {}, platform),
    text.replace('$BUILDPLATFORM', 'linux/arm64').replace('${TARGETARCH}', 'arm64'),
  );
  assert.match(withPlainBases(text, { TARGETARCH: 'mine' }, platform), /go:mine\n/);
  assert.match(withPlainBases(`ARG BASE=go:$TARGETOS\nFROM $BASE\n`, {}, platform), /FROM go:linux\n/);
  assert.deepEqual(argsOf(text, platform), { TARGETARCH: 'arm64', TARGETVARIANT: '' });
  for (const bad of ['$NONE', '$SPACE']) {
    assert.throws(() => withPlainBases(`FROM --platform=${bad} x\n`, { SPACE: 'linux/amd64 99 AS' }), /is no platform/);
  }
});

const commands: [isSaid: boolean, dockerfile: string][] = [
  [true, 'FROM x\nCMD ["serve"]\n'],
  [true, 'FROM x\nCMD serve\nUSER app\n'],
  [true, 'FROM x AS one\nentrypoint ["serve"]\nFROM ONE\n'],
  [true, 'FROM x AS one\nCMD serve\nFROM one AS two\nFROM y\nFROM two as three\n'],
  [true, 'FROM x\nCMD [ \\\n  "serve"]\n'],
  [false, 'FROM x\nRUN echo \\\n  CMD serve\n# CMD serve\n'],
  [false, 'FROM x AS build\nCMD serve\nFROM y\nCOPY --from=build /a /b\n'],
  [false, 'FROM x\nCMD serve\nFROM y\n'],
  [false, 'ARG CMD=x\nFROM x\n'],
];
for (const [isSaid, text] of commands) {
  test(`${JSON.stringify(text)} ${isSaid ? 'says' : 'does not say'} itself what is started`, () =>
    assert.equal(saysCommand(text), isSaid));
}

test('.dockerignore is tied to the root, and the last line that matches decides', () => {
  const isIgnored = createDockerignore(
    '# comment\n\nnode_modules\n/dist/\n**/*.log\n*.md\n!README.md\ndocs/**\n!docs/keep/me\nsrc/*/temp\n.\n',
  );
  const out = [
    'node_modules',
    'node_modules/a/b',
    'dist',
    'dist/x',
    'a.log',
    'deep/er/b.log',
    'x.md',
    'docs/a',
    'src/a/temp/x',
  ];
  const kept = ['lib/node_modules/a', 'README.md', 'sub/x.md', 'docs/keep/me', 'src/temp', 'a.logs', 'Dockerfile'];
  assert.deepEqual(
    out.filter((path) => !isIgnored(path)),
    [],
  );
  assert.deepEqual(kept.filter(isIgnored), []);
});
