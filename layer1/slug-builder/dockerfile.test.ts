import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { argsOf, assertPlain, ownImagesOf, withImages } from './dockerfile.ts';
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

test('only declared arguments are given: what is given is in the image for everybody to read', () => {
  const env = { VERSION: '2', NAME: 'n', OTHER: 'o', SECRET: 's', y: 'no' };
  assert.deepEqual(argsOf('FROM x\nARG A\n', env), {});
  const { y: _y, ...args } = argsOf(dockerfile, env);
  assert.deepEqual(args, { VERSION: '2', NAME: 'n', OTHER: 'o' });
});

test('what only BuildKit knows is refused by name', () => {
  for (const line of ['RUN --mount=type=cache,target=/x make', 'COPY --link a b', 'RUN <<EOF', 'COPY <<-"EOT" /x']) {
    assert.throws(
      () => assertPlain(`FROM x\n${line}\n`),
      (error) => hasCode(error, 'invalid') && /BuildKit/.test(error.message),
      line,
    );
  }
  assertPlain(dockerfile);
  assertPlain('FROM x\nRUN cat < file\nRUN echo "a << b"\n');
});

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
