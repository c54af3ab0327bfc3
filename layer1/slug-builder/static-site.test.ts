import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { get } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { Server } from 'node:http';
import type { SiteRules } from './static-rules.ts';
import { createOutput } from './output.ts';
import { createStaticServer } from './static-server.ts';
import { withFilesThere } from './static-site.ts';

let dir = '';
let server: Server;
let ruled: Server;
let port = 0;
let ruledPort = 0;

const rules: SiteRules = {
  cleanUrls: false,
  httpsOnly: true,
  errorPage: '/errors/error.html',
  routes: [
    { pattern: '/app/**', file: '/index.html', except: ['/app/assets/'] },
    { pattern: '/nothing', file: '/nothing.html', except: [] },
  ],
  redirects: [
    { path: '/old', url: 'https://new.example.com/', status: 302 },
    { path: '/index.html', url: '/never', status: 301 },
    { path: '/app/moved', url: '/there', status: 301 },
  ],
  headers: [
    { pattern: '/**', values: { 'cache-control': 'max-age=60', 'x-all': 'yes' } },
    { pattern: '/big.css', values: { 'Content-Type': 'text/plain' } },
  ],
};

before(async () => {
  dir = await mkdtemp(join(tmpdir(), 'flynn-static-'));
  await mkdir(join(dir, 'site/docs'), { recursive: true });
  await writeFile(join(dir, 'secret.txt'), 'secret');
  await writeFile(join(dir, 'site/index.html'), 'home');
  await writeFile(join(dir, 'site/about.html'), 'about');
  await writeFile(join(dir, 'site/docs/index.html'), 'docs');
  await writeFile(join(dir, 'site/.env'), 'secret');
  await writeFile(join(dir, 'site/big.css'), 'a{}\n'.repeat(1_000));
  await symlink('../secret.txt', join(dir, 'site/link.txt'));
  await mkdir(join(dir, 'site/errors'));
  await writeFile(join(dir, 'site/errors/error.html'), 'sorry');
  server = await createStaticServer(join(dir, 'site'));
  ruled = await createStaticServer(join(dir, 'site'), rules);
  [port, ruledPort] = [await listening(server), await listening(ruled)];
});

async function listening(one: Server): Promise<number> {
  await new Promise<void>((resolve) => one.listen(0, '127.0.0.1', resolve));
  const address = one.address();
  return typeof address === 'object' && address !== null ? address.port : 0;
}

after(async () => {
  for (const one of [server, ruled]) {
    await new Promise((resolve) => {
      one.close(resolve);
      one.closeAllConnections();
    });
  }
  await rm(dir, { recursive: true, force: true });
});

type Answer = { status: number; headers: Record<string, string | string[] | undefined>; body: string };

/** The path as it is: `fetch` would tidy it. */
function ask(path: string, headers: Record<string, string> = {}, at = port): Promise<Answer> {
  return new Promise((resolve, reject) => {
    get({ host: '127.0.0.1', port: at, path, headers, agent: false }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          body: Buffer.concat(chunks).toString('latin1'),
        }),
      );
    }).on('error', reject);
  });
}

const answers: [string, number, string | undefined][] = [
  ['/', 200, 'home'],
  ['/about', 200, 'about'],
  ['/about.html', 200, 'about'],
  ['/docs/', 200, 'docs'],
  ['/docs?a=1', 301, undefined],
  ['/none', 404, 'Not found\n'],
  ['/../secret.txt', 400, undefined],
  ['/%2e%2e/secret.txt', 400, undefined],
  ['/..%2fsecret.txt', 400, undefined],
  ['/link.txt', 404, undefined],
  ['/.env', 400, undefined],
  ['/%', 400, undefined],
  ['/a%00', 400, undefined],
];
for (const [path, status, body] of answers) {
  test(`${path} is answered with ${status}`, async () => {
    const answer = await ask(path);
    assert.equal(answer.status, status);
    if (body !== undefined) assert.equal(answer.body, body);
    assert.doesNotMatch(answer.body, /secret/);
  });
}

test('a folder without its slash is sent to the one with it, on this host', async () => {
  assert.equal((await ask('/docs?a=1')).headers['location'], '/docs/?a=1');
  assert.equal((await ask('//docs')).headers['location'], '/docs/');
});

test('what the browser has already is not sent again', async () => {
  const first = await ask('/about');
  const again = await ask('/about', { 'if-none-match': String(first.headers['etag']) });
  assert.deepEqual([again.status, again.body], [304, '']);
});

test('large text is compressed for who asks for it', async () => {
  assert.equal((await ask('/big.css')).headers['content-encoding'], undefined);
  const packed = await ask('/big.css', { 'accept-encoding': 'br, gzip' });
  assert.equal(packed.headers['content-encoding'], 'gzip');
  assert.ok(packed.body.length < 400, `${packed.body.length} bytes`);
});

const ruledAnswers: [path: string, status: number, body: string | undefined, location?: string][] = [
  ['/', 200, 'home'],
  ['/index.html', 200, 'home'],
  ['/about.html', 200, 'about'],
  ['/about', 404, 'sorry'],
  ['/old?a=1', 302, undefined, 'https://new.example.com/'],
  ['/old/', 404, 'sorry'],
  ['/app/deep/er', 200, 'home'],
  ['/app/moved', 301, undefined, '/there'],
  ['/app/assets/none.js', 404, 'sorry'],
  ['/nothing', 404, 'sorry'],
  ['/docs', 301, undefined, '/docs/'],
];
for (const [path, status, body, location] of ruledAnswers) {
  test(`by the rules of static.json ${path} is answered with ${status}`, async () => {
    const answer = await ask(path, {}, ruledPort);
    assert.equal(answer.status, status);
    if (body !== undefined) assert.equal(answer.body, body);
    assert.equal(answer.headers['location'], location);
  });
}

test('of several headers that fit the last count, over those of the server', async () => {
  const page = await ask('/about.html', {}, ruledPort);
  assert.deepEqual([page.headers['cache-control'], page.headers['x-all']], ['max-age=60', 'yes']);
  const style = await ask('/big.css', {}, ruledPort);
  assert.deepEqual(
    [style.headers['content-type'], style.headers['cache-control'], style.headers['x-all']],
    ['text/plain', 'no-cache', undefined],
  );
});

test('who came without TLS is sent to the same place with it; who did not come through the router is answered', async () => {
  const headers = { host: 'www.example.com', 'x-forwarded-proto': 'http' };
  const answer = await ask('/about.html?a=1', headers, ruledPort);
  assert.deepEqual([answer.status, answer.headers['location']], [301, 'https://www.example.com/about.html?a=1']);
  assert.equal((await ask('/', { ...headers, 'x-forwarded-proto': 'https' }, ruledPort)).status, 200);
});

test('an error page that is not in the site is left out, and a route to a file that is not is told: neither ends the build', async () => {
  let said = '';
  const out = createOutput((text) => (said += text));
  assert.deepEqual(await withFilesThere(join(dir, 'site'), rules, out), rules);
  assert.match(said, /leads \/nothing to \/nothing\.html, and the site has no such file/);
  said = '';
  const missing = { ...rules, routes: [], errorPage: '/none.html' };
  assert.deepEqual(await withFilesThere(join(dir, 'site'), missing, out), { ...missing, errorPage: undefined });
  assert.match(said, /^ !     static\.json: "error_page" is left out: the site has no file \/none\.html\. Commit it/);
});
