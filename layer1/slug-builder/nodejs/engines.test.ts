import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newestInRange, npmRangeFor, rangeOf } from './engines.ts';

const versions = ['18.20.4', '20.9.0', '20.19.1', '22.1.0', '24.0.0', '24.20.0', '25.1.0', '26.0.0-rc.1'];

const picked: [string | undefined, string][] = [
  [undefined, '24.20.0'],
  ['20.x', '20.19.1'],
  ['^20.9.0', '20.19.1'],
  ['20.9.0', '20.9.0'],
  ['v20.9.0', '20.9.0'],
  ['>=18 <21', '20.19.1'],
  ['18 || 22', '22.1.0'],
  ['lts/*', '24.20.0'],
  ['latest', '25.1.0'],
  ['*', '24.20.0'],
  ['~24.0', '24.0.0'],
];
for (const [written, expected] of picked) {
  test(`engines.node ${written ?? 'left out'} is ${expected}`, () => {
    assert.equal(newestInRange('node', rangeOf('node', written), versions), expected);
  });
}

test('what is no range is refused with an example', () => {
  assert.throws(() => rangeOf('node', 'twenty'), {
    code: 'invalid',
    message: /"twenty", which is not a version.*24\.x/,
  });
});

test('a range nothing satisfies is refused with the newest of each major version', () => {
  assert.throws(() => newestInRange('node', '99.x', versions), {
    message: /the newest are 25\.1\.0, 24\.20\.0, 22\.1\.0/,
  });
});

const npms: [string, string][] = [
  ['24.1.0', '^11.0.0'],
  ['18.20.4', '^10.0.0'],
  ['16.20.2', '^9.0.0'],
  ['12.22.0', '^6.0.0'],
];
for (const [node, expected] of npms) {
  test(`Node.js ${node} gets npm ${expected}`, () => assert.equal(npmRangeFor(node), expected));
}
