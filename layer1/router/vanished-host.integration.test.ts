import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';

const program = new URL('./vanished-host.ts', import.meta.url).pathname;

test('a host goes silent: what was asked of it is asked elsewhere within seconds, or ends with an error', async () => {
  const { stdout } = await promisify(execFile)('unshare', ['--net', process.execPath, program], { timeout: 120_000 });
  const { first, got, refused, ended, repeated } = JSON.parse(stdout);
  assert.deepEqual(first, ['first', 'first']);
  assert.equal(got.what, 'elsewhere');
  assert.equal(repeated.what, 'elsewhere');
  assert.equal(refused.what, 'backend-broke');
  assert.equal(ended.what, 'cut');
  // Limits of the routes are ten minutes; how long it takes on a machine that is not busy is said by the README.
  for (const { ms } of [got, refused, ended, repeated]) assert.ok(ms < 60_000, String(ms));
});
