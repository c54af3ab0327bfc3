/** An index of packages that asks for a password, as pip meets it in a build. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdtempDisposable, readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import { write } from '../compile-fixture.ts';
import { openContainerBuilds } from '../container-builds.ts';

const wheelName = 'greeting-1.0-py3-none-any.whl';
const wheelFile = resolve(import.meta.dirname, '../../../test/apps/python/vendor', wheelName);
const password = 'tr/ck y&pass';

async function openIndex(wheel: Buffer) {
  const allowed = `Basic ${Buffer.from(`me:${password}`).toString('base64')}`;
  const server = createServer((request, response) => {
    if (request.headers.authorization !== allowed) response.writeHead(401, { 'www-authenticate': 'Basic' }).end();
    else if (request.url === `/files/${wheelName}`) response.end(wheel);
    else if (request.url === '/simple/greeting/')
      response.setHeader('content-type', 'text/html').end(`<a href="/files/${wheelName}">${wheelName}</a>`);
    else response.writeHead(404).end();
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const address = server.address();
  assert.ok(address !== null && typeof address === 'object');
  return { url: `http://127.0.0.1:${address.port}/simple`, [Symbol.dispose]: () => void server.close() };
}

test(
  'a private index lets the app in by variables of the app, which neither output nor slug nor cache have',
  { timeout: 180_000 },
  async () => {
    const wheel = await readFile(wheelFile);
    using index = await openIndex(wheel);
    const hash = createHash('sha256').update(wheel).digest('hex');
    await using app = await mkdtempDisposable(join(tmpdir(), 'flynn-private-'));
    await write(app.path, {
      Procfile: 'web: python web.py\n',
      'pyproject.toml': `[project]\nname = "shop"\nversion = "1"\n[[tool.uv.index]]\nname = "corp-eu"\nurl = "${index.url}"\n`,
      'uv.lock': `version = 1
[[package]]
name = "shop"
version = "1"
source = { virtual = "." }
dependencies = [{ name = "greeting" }]
[[package]]
name = "greeting"
version = "1.0"
source = { registry = "${index.url}" }
wheels = [{ url = "${index.url.replace('/simple', '/files')}/${wheelName}", hash = "sha256:${hash}" }]
`,
    });
    await using builds = await openContainerBuilds();
    const { code, output, result } = await builds.build('private', app.path, {
      appEnv: { UV_INDEX_CORP_EU_USERNAME: 'me', UV_INDEX_CORP_EU_PASSWORD: password },
      env: { PIP_INDEX_URL: index.url.replace('/simple', '/nothing'), no_proxy: '127.0.0.1' },
    });
    assert.equal(code, 0, output);
    assert.match(output, /Successfully installed greeting-1\.0/);
    const kept = await Promise.all([
      builds.stored({ cacheOf: 'private' }),
      ...(result?.layers ?? []).map(({ digest }) => builds.stored({ digest })),
    ]);
    assert.ok(kept.length > 2);
    for (const secret of [password, encodeURIComponent(password)]) {
      assert.ok(!output.includes(secret), output);
      for (const bytes of kept) assert.ok(!bytes.includes(secret), 'it is kept nowhere');
    }
  },
);
