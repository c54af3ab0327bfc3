import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { processorMs } from './processor-fixture.ts';
import { fits, plainRules, withVariables } from './static-rules.ts';
import { readSettings } from './static-settings.ts';

const read = (settings: unknown) => readSettings({ staticJson: JSON.stringify(settings) });

test('static.json and Staticfile name the folder, inside the repository', () => {
  assert.equal(readSettings({}).root, undefined);
  assert.equal(readSettings({ staticJson: '{"root": "dist/"}' }).root, 'dist');
  assert.equal(readSettings({ staticfile: 'root: site\n' }).root, 'site');
  assert.equal(readSettings({ staticJson: '{}', staticfile: 'root: site' }).root, undefined);
});

test('what a site says becomes its rules, in their order', () => {
  const { rules, notes } = read({
    clean_urls: false,
    https_only: true,
    error_page: 'errors/error.html',
    routes: {
      '/*.html': 'index.html',
      '/spa/**': { path: '/spa.html', except: '/spa/assets/' },
      '/assets/*': '/assets/',
    },
    redirects: { '/old/': { url: '/', status: 302 }, '/moved': { url: '${NEW}/here' } },
    headers: { '/**': { 'Cache-Control': 'no-store' }, '/assets/**': { 'X-Number': 1 } },
    basic_auth: false,
    encoding: null,
  });
  assert.deepEqual(rules, {
    cleanUrls: false,
    httpsOnly: true,
    errorPage: '/errors/error.html',
    routes: [
      { pattern: '/*.html', file: '/index.html', except: [] },
      { pattern: '/spa/**', file: '/spa.html', except: ['/spa/assets/'] },
      { pattern: '/assets/*', file: '/assets/', except: [] },
    ],
    redirects: [
      { path: '/old/', url: '/', status: 302 },
      { path: '/moved', url: '${NEW}/here', status: 301 },
    ],
    headers: [
      { pattern: '/**', values: { 'Cache-Control': 'no-store' } },
      { pattern: '/assets/**', values: { 'X-Number': '1' } },
    ],
  });
  assert.deepEqual(notes, []);
  assert.equal(withVariables(rules, { NEW: 'https://n.example.com' }).redirects[1]?.url, 'https://n.example.com/here');
  assert.throws(() => withVariables(rules, {}), /no variable of that name: flynn env set NEW=/);
  assert.throws(() => withVariables(rules, { NEW: 'a\r\nb' }), /no part of an address/);
});

test('what is not known is named, with what to do instead', () => {
  const { notes } = read({ root: 'x', proxies: { '/api/': { origin: 'http://x' } }, clean_url: true });
  assert.deepEqual(notes, [
    'static.json: "proxies" is not known here: give the other app a route below this site: flynn -a OTHER route add http HOST/PATH',
    'static.json: "clean_url" is not known, and does nothing',
  ]);
});

const bad: [settings: unknown, pattern: RegExp][] = [
  [{ root: 3 }, /names the folder to serve[^]*at root/],
  [{ root: '/etc' }, /names the folder \/etc, which is not inside/],
  [{ root: '..' }, /not inside/],
  [{ root: 'a/../../b' }, /not inside/],
  [[], /says names and values/],
  [{ https_only: 'perhaps' }, /has to be true or false[^]*at https_only/],
  [{ basic_auth: true }, /open to everybody/],
  [{ basic_auth: 'yes' }, /open to everybody/],
  [{ basic_auth: { user: 'x' } }, /open to everybody/],
];
for (const [settings, pattern] of bad) {
  test(`${JSON.stringify(settings)} ends the build, and says why`, () => {
    assert.throws(
      () => read(settings),
      (error) => hasCode(error, 'invalid') && pattern.test(error.message),
    );
  });
}

const leftOut: [settings: Record<string, unknown>, note: string][] = [
  [{ clean_urls: 'perhaps' }, '"clean_urls" is left out: it has to be true or false'],
  [{ error_page: '../x' }, '"error_page" is left out: it has to be inside the site: it leads out of it'],
  [{ error_page: 4 }, '"error_page" is left out: it has to be a file of the site'],
  [{ routes: [] }, '"routes" is left out: it has to be an object'],
  [
    { routes: { '/**': { file: 'index.html' } } },
    '"routes" "/**" is left out: its "path" has to be a file of the site',
  ],
  [
    { routes: { '/**': { path: 'x', excepts: '/api' } } },
    '"routes" "/**" is left out: it has to be the file to give, or {"path": FILE, "except": PATH}',
  ],
  [
    { routes: { '/**': { path: 'x', except: 'api' } } },
    '"routes" "/**" is left out: its "except" has to begin with / or *',
  ],
  [
    { routes: { '/**': '../../etc/passwd' } },
    '"routes" "/**" is left out: its "path" has to be inside the site: it leads out of it',
  ],
  [{ routes: { 'x/**': 'index.html' } }, '"routes" "x/**" is left out: it has to begin with / or *'],
  [{ redirects: { x: '/y' } }, '"redirects" "x" is left out: it has to begin with /'],
  [
    { redirects: { '/x': { status: 301 } } },
    '"redirects" "/x" is left out: its "url" has to be the address that it leads to',
  ],
  [
    { redirects: { '/x': { url: '/y', status: 200 } } },
    '"redirects" "/x" is left out: its "status" has to be 301, 302, 303, 307 or 308',
  ],
  [
    { redirects: { '/x': { url: '/y\r\nSet-Cookie: a=b' } } },
    '"redirects" "/x" is left out: its "url" cannot be sent: it has characters that no address has',
  ],
  [
    { headers: { '/**': { 'X Y': 'z' } } },
    '"headers" "/**" "X Y" is left out: it is no name of a header: it has to be letters, digits and -',
  ],
  [
    { headers: { '/**': { 'X-Y': 'a\nb' } } },
    '"headers" "/**" "X-Y" is left out: it has characters that no header may have: it has to be one line of ASCII',
  ],
  [
    { headers: { '/**': { 'Content-Length': '3' } } },
    '"headers" "/**" "Content-Length" is left out: it is said by the file server itself: remove it',
  ],
  [{ headers: { '/**': 'no-store' } }, '"headers" "/**" is left out: it has to be an object'],
];
for (const [settings, note] of leftOut) {
  test(`of ${JSON.stringify(settings)} the build says what is left out, and why`, () => {
    const { rules, notes } = read({ ...settings, https_only: true });
    assert.deepEqual(notes, [`static.json: ${note}`]);
    const headers = rules.headers.filter(({ values }) => Object.keys(values).length > 0);
    assert.deepEqual(
      { ...rules, headers, errorPage: rules.errorPage ?? 'none' },
      { ...plainRules, httpsOnly: true, errorPage: 'none' },
    );
  });
}

test('what is left out leaves the entries beside it', () => {
  const { rules, notes } = read({
    routes: { '/**': 'index.html', '/x': 3 },
    redirects: { '/a': '/b', '/c': { url: '/d', status: 'soon' } },
    headers: { '/**': { 'X-Good': 'yes', 'X-Bad': 'ä' }, '/x': { 'X Y': 'z' } },
  });
  assert.deepEqual(rules.routes, [{ pattern: '/**', file: '/index.html', except: [] }]);
  assert.deepEqual(rules.redirects, [{ path: '/a', url: '/b', status: 301 }]);
  assert.deepEqual(rules.headers, [
    { pattern: '/**', values: { 'X-Good': 'yes' } },
    { pattern: '/x', values: {} },
  ]);
  assert.equal(notes.length, 4);
  const many = Object.fromEntries(Array.from({ length: 30 }, (_, number) => [`/${number}`, 3]));
  assert.deepEqual(
    [read({ routes: many }).notes.length, read({ routes: many }).notes.at(-1)],
    [21, 'static.json: and 10 more'],
  );
});

test('what other platforms take is taken: numbers and truths as texts, an address alone, one with letters beyond ASCII', () => {
  const { rules, notes } = read({
    clean_urls: 'off',
    https_only: 'True',
    basic_auth: 'false',
    redirects: {
      '/a': { url: '/ü/${X}?q=é', status: '302' },
      '/b': 'https://b.example.com/',
      '/c': { url: '/d', status: null },
    },
    headers: { '/**': { 'X-Frame': true } },
  });
  assert.deepEqual(notes, []);
  assert.deepEqual([rules.cleanUrls, rules.httpsOnly], [false, true]);
  assert.deepEqual(rules.redirects, [
    { path: '/a', url: '/%C3%BC/${X}?q=%C3%A9', status: 302 },
    { path: '/b', url: 'https://b.example.com/', status: 301 },
    { path: '/c', url: '/d', status: 301 },
  ]);
});

const patterns: [pattern: string, path: string, isFitting: boolean][] = [
  ['/*.html', '/baz.html', true],
  ['/*.html', '/bar/baz.html', false],
  ['/route/**', '/route/foo/bar', true],
  ['/route/**', '/route', false],
  ['/**', '/', true],
  ['**', '/a/b', true],
  ['/a/*/c', '/a/b/c', true],
  ['/a/*/c', '/a//c', true],
  ['/a/*/c', '/a/b/b/c', false],
  ['/**/*.js', '/a/b/c.js', true],
  ['/**/*.js', '/a.js', false],
  ['/*a*b', '/xaab', true],
  ['/a.c', '/abc', false],
  ['/', '/x', false],
];
for (const [pattern, path, isFitting] of patterns) {
  test(`${pattern} ${isFitting ? 'fits' : 'does not fit'} ${path}`, () => assert.equal(fits(pattern, path), isFitting));
}

test('no path takes long to be compared', () => {
  const takenMs = processorMs(() => {
    assert.ok(!fits('/**a**a**a**a**a**a**b', `/${'a'.repeat(16_000)}`));
    assert.ok(!fits('/*a*a*a*a*a*a*b', `/${'a'.repeat(16_000)}`));
  });
  assert.ok(takenMs < 5_000, `${takenMs} ms`);
});
