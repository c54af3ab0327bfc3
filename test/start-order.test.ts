import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { longFiles, startOrder } from './start-order.ts';

test('files that take long begin first, those that nobody knows keep their order, and none is lost', () => {
  const [longest = '', next = ''] = longFiles;
  assert.deepEqual(startOrder(['a.integration.test.ts', next, 'b.e2e.test.ts', longest]), [
    longest,
    next,
    'a.integration.test.ts',
    'b.e2e.test.ts',
  ]);
});

test('each that is said to take long is there', () => {
  assert.deepEqual(
    longFiles.filter((file) => !existsSync(join(import.meta.dirname, '..', file))),
    [],
  );
});
