import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createIgnore } from './slugignore.ts';

const cases: [string, string, boolean, boolean][] = [
  // pattern, path, is a folder, is ignored
  ['*.md', 'README.md', false, true],
  ['*.md', 'docs/guide.md', false, true],
  ['/*.md', 'docs/guide.md', false, false],
  ['test/', 'test', true, true],
  ['test/', 'src/test', true, true],
  ['test/', 'test', false, false],
  ['docs/api', 'docs/api', true, true],
  ['docs/api', 'more/docs/api', true, false],
  ['**/fixtures', 'a/b/fixtures', true, true],
  ['docs/**', 'docs/a/b', false, true],
  ['a?c', 'abc', false, true],
  ['a.c', 'abc', false, false],
  ['file (1).txt', 'file (1).txt', false, true],
  ['*.log\n!keep.log', 'keep.log', false, false],
  ['# *.md\n\n', 'README.md', false, false],
];
for (const [pattern, path, isFolder, expected] of cases) {
  test(`${JSON.stringify(pattern)} ${expected ? 'keeps out' : 'lets in'} ${path}${isFolder ? '/' : ''}`, () => {
    assert.equal(createIgnore(pattern)(path, isFolder), expected);
  });
}
