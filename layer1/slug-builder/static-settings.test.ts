import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { fits, withVariables } from './static-rules.ts';
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
  [{ clean_urls: 'yes' }, /at clean_urls/],
  [{ error_page: '../x' }, /names the file \.\.\/x, which is not inside/],
  [{ routes: { '/**': { file: 'index.html' } } }, /is the file to give[^]*at routes/],
  [{ routes: { '/**': '../../etc/passwd' } }, /not inside/],
  [{ routes: { 'x/**': 'index.html' } }, /begins with \/ or \*/],
  [{ redirects: { '/x': '/y' } }, /at redirects/],
  [{ redirects: { '/x': { url: '/y', status: 200 } } }, /is 301, 302[^]*status/],
  [{ redirects: { '/x': { url: '/y\r\nSet-Cookie: a=b' } } }, /cannot be sent/],
  [{ headers: { '/**': { 'X Y': 'z' } } }, /is no name of a header/],
  [{ headers: { '/**': { 'X-Y': 'a\nb' } } }, /no header may have/],
  [{ headers: { '/**': { 'Content-Length': '3' } } }, /is said by the file server itself/],
  [{ basic_auth: true }, /open to everybody/],
];
for (const [settings, pattern] of bad) {
  test(`${JSON.stringify(settings)} ends the build, and says why`, () => {
    assert.throws(
      () => read(settings),
      (error) => hasCode(error, 'invalid') && pattern.test(error.message),
    );
  });
}

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
  const begunMs = performance.now();
  assert.ok(!fits('/**a**a**a**a**a**a**b', `/${'a'.repeat(16_000)}`));
  assert.ok(!fits('/*a*a*a*a*a*a*b', `/${'a'.repeat(16_000)}`));
  assert.ok(performance.now() - begunMs < 5_000);
});
