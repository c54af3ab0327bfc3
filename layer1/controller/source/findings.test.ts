import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sourceFindings } from './findings.ts';

const spec = { appId: 'a1', url: 'https://git.example.com/shop.git', branch: 'main', everyMs: 60_000, isOpen: false };
const status = { polls: 9, pushes: 1, failures: 5, nextMs: 0, error: 'cannot read https://git.example.com/shop.git' };
const nameOf = (appId: string) => (appId === 'a1' ? 'shop' : undefined);

test('a repository that could not be read again and again is told of, one that is there again is not', () => {
  const [found, ...more] = sourceFindings([{ spec, status }], nameOf);
  assert.deepEqual(more, []);
  assert.equal(found?.subject, 'app shop');
  assert.match(found.what, /could not be read 5 times in a row: cannot read https:/);
  const fine = [
    { spec, status: { ...status, failures: 4 } },
    { spec, status: { polls: 9, pushes: 1, failures: 0, nextMs: 0 } },
    { spec: { ...spec, appId: 'gone' }, status },
  ];
  assert.deepEqual(sourceFindings(fine, nameOf), []);
});
