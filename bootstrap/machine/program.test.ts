import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pathOfRoot } from './program.ts';

test('root finds its own programs also where su has left the path of somebody else', () => {
  const path = pathOfRoot('/home/me/bin:/usr/bin:/bin');
  assert.equal(path, '/home/me/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin');
  assert.equal(pathOfRoot(path), path);
  assert.equal(pathOfRoot('/usr/sbin:/usr/bin'), '/usr/sbin:/usr/bin:/usr/local/sbin:/sbin');
  assert.equal(pathOfRoot(undefined), '/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin');
});
