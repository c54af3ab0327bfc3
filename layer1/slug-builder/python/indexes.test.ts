import assert from 'node:assert/strict';
import { test } from 'node:test';
import { authorized, defaultIndex, loginAdvice } from './indexes.ts';
import { readPyProject } from './pyproject.ts';

const corp = { name: 'corp-eu.internal', url: 'https://pip.corp.test/simple/', isDefault: false };
const url = 'https://pip.corp.test/simple';

const logins: [string, Record<string, string>, string | undefined][] = [
  ['uv', { UV_INDEX_CORP_EU_INTERNAL_USERNAME: 'me', UV_INDEX_CORP_EU_INTERNAL_PASSWORD: 'p@s s$' }, 'me:p%40s%20s%24'],
  [
    'Poetry',
    { POETRY_HTTP_BASIC_CORP_EU_INTERNAL_USERNAME: 'me', POETRY_HTTP_BASIC_CORP_EU_INTERNAL_PASSWORD: 'x' },
    'me:x',
  ],
  ['a token that is a username', { UV_INDEX_CORP_EU_INTERNAL_USERNAME: 'token' }, 'token'],
  ['a token in an address', { UV_INDEX: 'https://token:@pip.corp.test/simple' }, 'token'],
  ['another index', { UV_INDEX_CORP_USERNAME: 'me', UV_INDEX_CORP_PASSWORD: 'x' }, undefined],
  ['an address in UV_INDEX', { UV_INDEX: `other=https://h/x corp=https://me:x@pip.corp.test/simple` }, 'me:x'],
  ['a name in UV_DEFAULT_INDEX', { UV_DEFAULT_INDEX: `main=${url}`, UV_INDEX_MAIN_PASSWORD: 'x' }, ':x'],
  ['nobody', {}, undefined],
];
for (const [whose, env, login] of logins) {
  test(`the login of ${whose} is ${login === undefined ? 'not given to this index' : 'a variable for pip, and in no file'}`, () => {
    assert.deepEqual(
      authorized(['https://download.test/whl', url], [corp], env),
      login === undefined
        ? { urls: ['https://download.test/whl', url], env: {} }
        : {
            urls: ['https://download.test/whl', 'https://${FLYNN_INDEX_1}@pip.corp.test/simple'],
            env: { FLYNN_INDEX_1: login },
          },
    );
  });
}

test('an address that has its login already keeps it', () => {
  const withLogin = ['https://u:${KEY}@pip.corp.test/simple'];
  assert.deepEqual(authorized(withLogin, [corp], { UV_INDEX_CORP_EU_INTERNAL_PASSWORD: 'x' }), {
    urls: withLogin,
    env: {},
  });
});

test('what uv asks by default pip does, unless the same hand told pip', () => {
  const ours = { UV_DEFAULT_INDEX: 'https://me:x@pip.corp.test/simple' };
  const theirs = { PIP_INDEX_URL: 'https://mirror.test/simple' };
  assert.equal(defaultIndex(ours, theirs), 'https://me:x@pip.corp.test/simple');
  assert.equal(defaultIndex({ ...ours, ...theirs }, {}), undefined);
  assert.equal(defaultIndex({}, theirs), undefined);
  assert.equal(defaultIndex({}, { UV_INDEX_URL: 'https://mirror.test/simple' }), 'https://mirror.test/simple');
  const named = { UV_DEFAULT_INDEX: `corp=${url}`, UV_INDEX_CORP_USERNAME: 'me', UV_INDEX_CORP_PASSWORD: 'x/y' };
  assert.equal(defaultIndex(named, theirs), 'https://me:x%2Fy@pip.corp.test/simple');
});

test('whom an index does not let in is told its variables, and no login', () => {
  assert.deepEqual(loginAdvice(['https://pypi.org/simple'], [corp]), []);
  const [advice = ''] = loginAdvice(['https://me:secret@pip.corp.test/simple'], [corp]);
  assert.match(advice, /that https:\/\/pip\.corp\.test\/simple lets.*UV_INDEX_CORP_EU_INTERNAL_PASSWORD/);
  assert.match(loginAdvice([url], [])[0] ?? '', /once pyproject\.toml has a name/);
});

test('pyproject.toml names the indexes of uv and of Poetry', () => {
  const { indexes } = readPyProject(`
[[tool.uv.index]]
name = "corp"
url = "${url}"
default = true
[[tool.poetry.source]]
name = "PyPI"
priority = "primary"
[[tool.poetry.source]]
name = "eu"
url = "https://eu.test/simple"
`);
  assert.deepEqual(indexes, [
    { name: 'corp', url, isDefault: true },
    { name: 'eu', url: 'https://eu.test/simple', isDefault: false },
  ]);
});
