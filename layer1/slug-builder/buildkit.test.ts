import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { withoutBuildKit } from './buildkit.ts';

test('what changes nothing but how long it takes is left out, each line stays where it was', () => {
  const given = [
    'FROM x',
    'COPY --link --chown=1:1 a b',
    'RUN --mount=type=cache,target=/root/.npm \\',
    '    --mount=type=cache,target=/tmp --network=default \\',
    '  npm ci --mount=type=cache,target=/x',
    'RUN true',
  ].join('\n');
  const { dockerfile, notes } = withoutBuildKit(given);
  assert.equal(
    dockerfile,
    [
      'FROM x',
      'COPY  --chown=1:1 a b',
      'RUN  \\',
      '      \\',
      '  npm ci --mount=type=cache,target=/x',
      'RUN true',
    ].join('\n'),
  );
  assert.deepEqual(
    notes.map((note) => note.replace(/ is left out.*/, '')),
    [
      'line 2: --link',
      'line 3: --mount=type=cache,target=/root/.npm',
      'line 3: --mount=type=cache,target=/tmp',
      'line 3: --network=default',
    ],
  );
});

const refused: [line: string, pattern: RegExp][] = [
  ['RUN --mount=type=secret,id=s cat /run/secrets/s', /line 3: RUN --mount=type=secret: read it when the app runs/],
  ['RUN --mount=target=. make', /line 3: RUN --mount=target=\.: COPY what it needs/],
  ['RUN --mount=type=cache,from=base,target=/c make', /line 3: RUN --mount=type=cache: leave it out, or COPY/],
  ['RUN \\\n  --mount=type=ssh git clone x', /line 3: RUN --mount=type=ssh: make what it fetches a submodule/],
  ['RUN --network=none make', /line 3: RUN --network=none: leave it out/],
  ['COPY --parents a/b c', /line 3: COPY --parents/],
  ['copy --link --exclude=*.md . .', /line 3: COPY --exclude=\*\.md: .*\.dockerignore/],
  ['ADD --checksum=sha256:aa https://x.example.com/a /a', /line 3: ADD --checksum=sha256:aa: RUN curl/],
  ['ADD https://git.example.com/a.git#v1 /a', /line 3: ADD https:\/\/git\.example\.com\/a\.git#v1: RUN git clone/],
  ['ADD git@git.example.com:a /a', /line 3: ADD git@/],
  ['RUN <<EOF\n#!/bin/x\nRUN --mount=type=ssh x\nEOF', /^[^]*line 3: RUN <<EOF: join its commands by "&& \\"[^\n]*$/],
  ['RUN echo \\" <<EOF "x" <<B\nx\nEOF\nB', /line 3: RUN <<EOF/],
  ['COPY <<-"EOT" /x\n EOT', /line 3: COPY <<EOT: a line with nothing but the name/],
  ['ADD <<a.txt <<b.txt /x/\nb.txt\na.txt\n', /line 3: ADD <<a.txt: a line with nothing but the name/],
];
for (const [line, pattern] of refused) {
  test(`"${line}" is refused by its line, with what to write`, () => {
    assert.throws(
      () => withoutBuildKit(`FROM x\n\n${line}\n`),
      (error) => hasCode(error, 'invalid') && /BuildKit/.test(error.message) && pattern.test(error.message),
    );
  });
}

test('here-documents of RUN are said in one line; no word in them is an instruction’s', () => {
  const { dockerfile, notes } = withoutBuildKit(
    "FROM x\nRUN --mount=type=cache,target=/c <<EOF\nRUN --mount=type=ssh x\nCOPY --link a b\nEOF\nRUN bash -e <<'EOF'\nx\nEOF\n",
  );
  assert.match(dockerfile, /^FROM x\nRUN {2}eval "\$\(printf %b 'RUN --mount=type=ssh x\\nCOPY --link a b\\n#' /);
  assert.deepEqual(
    notes.map((note) => note.replace(/ (?:goes|is) .*/, '')),
    ['line 2: RUN <<EOF', 'line 6: RUN <<EOF', 'line 2: --mount=type=cache,target=/c'],
  );
});

test('what only looks like BuildKit’s stays as it is', () => {
  const plain = [
    'FROM --platform=linux/amd64 x',
    'RUN cat < file',
    'RUN echo "a << b" "c <<EOF d"',
    'RUN echo $((1<<3)) $((2 <<1))',
    'RUN grep --link x # --mount=type=ssh',
    'ADD https://x.example.com/a.tar.gz /a',
    'COPY --from=a --chown=1 b c',
    'LABEL a="<<EOF"',
  ].join('\n');
  assert.deepEqual(withoutBuildKit(plain), { dockerfile: plain, notes: [], documents: new Map() });
});

test('of many the first are told', () => {
  assert.throws(() => withoutBuildKit(`FROM x\n${'COPY --parents a b\n'.repeat(8)}`), /line 6: [^]*\nand 3 more$/);
});
