import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { get } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { Server } from 'node:http';
import { createStaticServer } from './static-server.ts';
import { rootOf } from './static-site.ts';

let dir = '';
let server: Server;
let port = 0;

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
  server = await createStaticServer(join(dir, 'site'));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  port = typeof address === 'object' && address !== null ? address.port : 0;
});

after(async () => {
  await new Promise((resolve) => {
    server.close(resolve);
    server.closeAllConnections();
  });
  await rm(dir, { recursive: true, force: true });
});

type Answer = { status: number; headers: Record<string, string | string[] | undefined>; body: string };

/** The path as it is: `fetch` would tidy it. */
function ask(path: string, headers: Record<string, string> = {}): Promise<Answer> {
  return new Promise((resolve, reject) => {
    get({ host: '127.0.0.1', port, path, headers, agent: false }, (response) => {
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

test('static.json and Staticfile name the folder, inside the repository', () => {
  assert.equal(rootOf({}), undefined);
  assert.equal(rootOf({ staticJson: '{"root": "dist/"}' }), 'dist');
  assert.equal(rootOf({ staticfile: 'root: site\n' }), 'site');
  assert.equal(rootOf({ staticJson: '{}', staticfile: 'root: site' }), undefined);
  for (const root of ['/etc', '..', 'a/../../b']) {
    assert.throws(() => rootOf({ staticJson: JSON.stringify({ root }) }), { code: 'invalid' }, root);
  }
  assert.throws(() => rootOf({ staticJson: '{"root": 3}' }), { code: 'invalid' });
});
