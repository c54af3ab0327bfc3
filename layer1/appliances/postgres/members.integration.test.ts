/** By the Python of the image: who is to lead where nobody does. */
import { test } from 'node:test';
import { assertPythonPasses } from '../python-fixture.ts';

test('where nobody leads the member that has most is made the primary, or it is said why none is', () =>
  assertPythonPasses(`${import.meta.dirname}/members_test.py`, {
    image: process.env['FLYNN_TEST_POSTGRES_IMAGE'] ?? '',
  }));
