import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chooseVersion, compareVersions, wishOf } from './wanted-version.ts';

const wishes: [string, string | undefined][] = [
  ['python-3.13.1\n', '3.13.1'],
  ['3.13\n', '3.13'],
  ['# ours\n\n v3.12 \n', '3.12'],
  ['\n', undefined],
];
for (const [text, version] of wishes) {
  test(`${JSON.stringify(text)} asks for ${version ?? 'nothing'}`, () => {
    assert.equal(wishOf(text, 'runtime.txt', 'python')?.version, version);
  });
}

test('what is no version is refused with its file and what to write', () => {
  assert.throws(() => wishOf('newest', '.python-version', 'python'), {
    code: 'invalid',
    message: /\.python-version says "newest"/,
  });
});

const chosen: [string | undefined, string][] = [
  [undefined, '3.13'],
  ['3.13.99', '3.13'],
  ['3', '3.13'],
  ['3.9', '3.9'],
];
for (const [version, expected] of chosen) {
  test(`of 3.9 and 3.13, ${version ?? 'no wish'} means ${expected}`, () => {
    const wish = version === undefined ? undefined : { version, file: 'f' };
    assert.equal(chooseVersion('Python', wish, ['3.9', '3.13']), expected);
  });
}

test('a version that is not there is refused, naming those that are', () => {
  assert.throws(() => chooseVersion('Python', { version: '3.1', file: 'runtime.txt' }, ['3.9', '3.13']), {
    code: 'invalid',
    message: /runtime\.txt asks for Python 3\.1, and there is 3\.13, 3\.9:.*BUILDPACK_URL/,
  });
});

test('versions are compared by numbers', () => {
  assert.deepEqual(['3.13', '3.9', '3.13.1', '4'].sort(compareVersions), ['3.9', '3.13', '3.13.1', '4']);
});
