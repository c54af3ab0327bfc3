/** Names that every object of JavaScript has something under. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openDeskWithController } from '../testing.ts';

test('a name that nobody gave is none, whatever it is', async () => {
  await using env = await openDeskWithController();
  await env.controller.deployApp('shop', { web: {} });
  const run = (...argv: string[]) => env.desk.run(['-a', 'shop', ...argv]);
  for (const argv of [
    ['env', 'get', 'constructor'],
    ['env', 'unset', 'constructor'],
    ['meta', 'unset', 'constructor'],
  ]) {
    const { code, stdout, stderr } = await run(...argv);
    assert.deepEqual([code, stdout, stderr.split('\n')[0]], [1, '', 'flynn: not set: constructor'], argv.join(' '));
  }
  for (const argv of [
    ['limit', 'set', 'constructor', 'memory=64MB'],
    ['constraint', 'set', 'constructor', 'disk=ssd'],
  ]) {
    const { code, stderr } = await run(...argv);
    assert.equal(code, 2, stderr);
    assert.match(stderr, /there is no process type "constructor": there is web/);
  }
});
