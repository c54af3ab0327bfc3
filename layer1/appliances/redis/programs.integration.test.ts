/** By the Python that members run: who leads, that two never do, and what a member does where something does not answer. */
import { join } from 'node:path';
import { test } from 'node:test';
import { assertPythonPasses } from '../python-fixture.ts';

const assertPasses = (file: string) =>
  assertPythonPasses(join(import.meta.dirname, file), {
    image: process.env['FLYNN_TEST_REDIS_IMAGE'] ?? '',
    pythonPath: '/usr/lib/flynn/redis',
  });

test('members decide by their rules, and whatever befalls their hosts two never take writes at the same time', () =>
  assertPasses('../members/decision_test.py'));

test('what may take writes is watched, though Valkey does not answer', () => assertPasses('guard_test.py'));

test('a member whose store or whose Valkey does not answer leads for no longer than it may', () =>
  assertPasses('leadership_test.py'));

test('a member does what it is asked to, lets in whom it is to, and ends what never ends', () =>
  assertPasses('member_test.py'));

test('what is on the disk is known to be, and a dump needs room', () => assertPasses('disk_test.py'));

test('whoever dumps is told that the primary is still at it', () => assertPasses('client_test.py'));

test('a restore that is not whole, does not fit or is not waited for changes nothing', () =>
  assertPasses('replacement_test.py'));
