import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
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
  const plain =
    'FROM scratch\nFROM r.example.com:5000/a/b:1@sha256:' + 'a'.repeat(64) + '\nRUN echo \\\n# comment\n  FROM x\n';
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

test('a line that goes on and begins with FROM is told as that', () => {
  const text = 'FROM debian:13\nRUN sqlite3 x "SELECT * \\\n  FROM users"\n';
  assert.throws(() => withPlainBases(text, {}), /"FROM users"" goes on with the line before and begins with FROM/);
});

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
    '\uFEFF# escape=`\nFR`\nOM 99',
    'FROM x\nCOPY --from=9944ff86f2a9 / /x',
    'FROM x\nCOPY \\\n --from=flynn-flynn/build:app / /x',
    'FROM x\nCOPY --from=$B / /x',
    'FROM x\nONBUILD COPY --from=99 / /x',
    'FROM x AS y\nFROM --platform=linux/amd64 99',
  ];
  for (const text of bad) {
    assert.throws(
      () => withPlainBases(text, { B: '99' }),
      (error) => hasCode(error, 'invalid'),
      text,
    );
  }
});

test('only declared arguments are given: what is given is in the image for everybody to read', () => {
  const env = { VERSION: '2', NAME: 'n', OTHER: 'o', SECRET: 's', y: 'no' };
  assert.deepEqual(argsOf('FROM x\nARG A\n', env), {});
  const { y: _y, ...args } = argsOf(dockerfile, env);
  assert.deepEqual(args, { VERSION: '2', NAME: 'n', OTHER: 'o' });
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
