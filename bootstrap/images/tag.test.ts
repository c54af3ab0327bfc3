import assert from 'node:assert/strict';
import { test } from 'node:test';
import { array, assert as check, property, string } from 'fast-check';
import type { ImageRecipe } from './recipes.ts';
import { type Ingredient, tagOf } from './tag.ts';

const recipe: ImageRecipe = { command: ['/bin/sh'], packages: ['git'], env: { A: '1', B: '2' } };
const files: Ingredient[] = [
  { path: '/a', digest: '1', mode: 0o644 },
  { path: '/b', digest: '2', mode: 0o755 },
];

test('a tag is the same for the same image, in whatever order things are named', () => {
  const other: ImageRecipe = { env: { B: '2', A: '1' }, packages: ['git'], command: ['/bin/sh'] };
  assert.equal(tagOf('x', recipe, files, 'p:1'), tagOf('x', other, files.toReversed(), 'p:1'));
});

test('a tag changes with everything the image is made of', () => {
  const tags = [
    tagOf('x', recipe, files, 'p:1'),
    tagOf('x', recipe, files, 'p:2'),
    tagOf('x', recipe, files, undefined),
    tagOf('x', recipe, files.slice(1), 'p:1'),
    tagOf('x', recipe, [{ path: '/a', digest: '3', mode: 0o644 }, ...files.slice(1)], 'p:1'),
    tagOf('x', recipe, [{ path: '/a', digest: '1', mode: 0o600 }, ...files.slice(1)], 'p:1'),
    tagOf('x', { ...recipe, packages: ['git', 'curl'] }, files, 'p:1'),
    tagOf('x', { ...recipe, command: [] }, files, 'p:1'),
    tagOf('x', { ...recipe, entrypoint: [] }, files, 'p:1'),
    tagOf('x', { ...recipe, env: { A: '1', B: '3' } }, files, 'p:1'),
  ];
  assert.equal(new Set(tags).size, tags.length);
});

test('a tag is one that engines accept, under the image’s name', () => {
  check(
    property(string(), array(string()), (digest, packages) => {
      const tag = tagOf('slug-runner', { ...recipe, packages }, [{ path: '/a', digest, mode: 0 }], undefined);
      assert.match(tag, /^flynn\/slug-runner:[0-9a-f]{16}$/);
    }),
  );
});
