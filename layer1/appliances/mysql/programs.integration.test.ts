/** By the Python that members run: which copy counts, how a member follows and takes writes, how MariaDB is set, what dumps are. */
import { join } from 'node:path';
import { test } from 'node:test';
import { assertPythonPasses } from '../python-fixture.ts';

const assertPasses = (file: string) =>
  assertPythonPasses(join(import.meta.dirname, file), {
    image: process.env['FLYNN_TEST_MYSQL_IMAGE'] ?? '',
    pythonPath: '/usr/lib/flynn/mysql',
  });

test('commits wait for the one copy that counts, before it is written down and until it is written off', () =>
  assertPasses('copies_test.py'));

test('whatever befalls the hosts of three members, who leads has all that was acknowledged', () =>
  assertPasses('worlds_test.py'));

test('a member follows who leads, with all of its data or anew, and takes writes once it has done all that it received', () =>
  assertPasses('member_test.py'));

test('apps cannot take all connections, and who ended says how', () => assertPasses('server_test.py'));

test('what is cut or damaged is not restored, and what is of another server is read as of this one', () =>
  assertPasses('restoring_test.py'));
