/** Tests in Python, of programs of an image. For tests. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { relative } from 'node:path';
import { promisify } from 'node:util';
import { testLabel } from '@flynn/kit/testing-label';

const run = promisify(execFile);

/** By the Python of that image, which the run has made ready. `pythonPath`: where the image has its modules, if it has some. */
export async function assertPythonPasses(
  file: string,
  { image, pythonPath }: { image: string; pythonPath?: string },
): Promise<void> {
  // What tests of several kinds go by is beside those that all kinds have.
  const path = ['--env', `PYTHONPATH=${pythonPath === undefined ? '' : `${pythonPath}:`}/tests/members`];
  const where = ['--user', '0', '--label', testLabel, '--volume', `${import.meta.dirname}:/tests:ro`, ...path];
  const program = ['--entrypoint', 'python3', image, '-B', `/tests/${relative(import.meta.dirname, file)}`];
  const { stderr } = await run('docker', ['run', '--rm', ...where, ...program]);
  assert.match(stderr, /Ran [1-9]\d* tests?\b/);
}
