/** A branch read from a repository with git. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join, normalize } from 'node:path';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { fetchInto, headOf } from './git-remote.ts';
import { pinned } from './pinned-remote.ts';

const { signal } = new AbortController();
const identity = ['-c', 'user.name=t', '-c', 'user.email=t@example.com'];

async function openRepository(t: TestContext) {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-remote-test-'));
  t.after(() => rm(dir, { recursive: true, force: true }));
  const work = join(dir, 'work');
  const git = (...args: string[]) =>
    execFileSync('git', ['-C', work, ...identity, ...args], { encoding: 'utf8' }).trim();
  execFileSync('git', ['init', '--quiet', '--initial-branch', 'main', work]);
  const commit = async (files: Record<string, string | Buffer>): Promise<string> => {
    for (const [name, content] of Object.entries(files)) await writeFile(join(work, name), content);
    git('add', '.');
    git('commit', '--quiet', '--message', 'files');
    return git('rev-parse', 'HEAD');
  };
  /** As plain files. */
  const serve = async (): Promise<string> => {
    git('update-server-info');
    const server = createServer((request, response) => {
      const path = normalize(decodeURIComponent(new URL(request.url ?? '/', 'http://x').pathname));
      readFile(join(work, '.git', path)).then(
        (bytes) => response.end(bytes),
        () => response.writeHead(404).end(),
      );
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    t.after(() => server.close());
    const { port } = server.address() as AddressInfo;
    return `http://127.0.0.1:${port}`;
  };
  let fetched = 0;
  const into = () => join(dir, `fetched${(fetched += 1)}.git`);
  return { remote: { url: `file://${work}`, branch: 'main', env: {} }, commit, into, serve };
}

test('a branch is found and fetched; one that is not there is told', async (t) => {
  const { remote, commit, into } = await openRepository(t);
  const first = await commit({ 'index.html': 'hello' });
  assert.equal(await headOf(remote, signal), first);
  assert.equal(await fetchInto(into(), remote, { signal }), first);
  await assert.rejects(headOf({ ...remote, branch: 'other' }, signal), (error) => hasCode(error, 'not_found'));
});

test('what is larger than a push may be is not fetched, in one object or in many', async (t) => {
  const { remote, commit, into } = await openRepository(t);
  const maxBytes = 1024 ** 2;
  const refused = {
    code: 'invalid',
    message: /^file:\/\/.*\/work is too large: a commit may have 1 MiB, packed/,
  };
  await commit({ large: randomBytes(2 * maxBytes) });
  await assert.rejects(fetchInto(into(), remote, { signal, maxBytes }), refused);
  const parts = Array.from({ length: 20 }, (_, index) => [`part${index}`, randomBytes(maxBytes / 10)] as const);
  const many = await commit({ large: '', ...Object.fromEntries(parts) });
  await assert.rejects(fetchInto(into(), remote, { signal, maxBytes }), refused);
  assert.equal(await fetchInto(into(), remote, { signal, maxBytes: 4 * maxBytes }), many);
});

test('nor is it where a server has each object in a file of its own', async (t) => {
  const { remote, commit, into, serve } = await openRepository(t);
  const maxBytes = 1024 ** 2;
  const parts = Array.from({ length: 30 }, (_, index) => [`part${index}`, randomBytes(maxBytes / 10)] as const);
  const many = await commit(Object.fromEntries(parts));
  const plain = { ...remote, url: await serve() };
  await assert.rejects(fetchInto(into(), plain, { signal, maxBytes }), { code: 'invalid', message: /is too large/ });
  assert.equal(await fetchInto(into(), plain, { signal, maxBytes: 4 * maxBytes }), many);
});

test('what was found outside goes nowhere else: neither to where its server sends it, nor to what its name means by now', async (t) => {
  const { commit, into, serve } = await openRepository(t);
  const head = await commit({ 'index.html': 'hello' });
  const inside = await serve();
  let asked = 0;
  const elsewhere = createServer((request, response) => {
    asked += 1;
    response.writeHead(302, { location: `${inside}${request.url}` }).end();
  });
  await new Promise<void>((resolve) => elsewhere.listen(0, '127.0.0.1', resolve));
  t.after(() => elsewhere.close());
  const { port } = elsewhere.address() as AddressInfo;
  const at = (url: string) => ({ branch: 'main', ...pinned(url, ['127.0.0.1']) });

  // No name server knows it.
  const named = inside.replace('127.0.0.1', 'repository.invalid');
  assert.equal(await headOf(at(named), signal), head);
  assert.equal(await fetchInto(into(), at(named), { signal }), head);

  const refused = (error: unknown): boolean =>
    hasCode(error, 'invalid') &&
    error.message.includes(`its server sends git to ${inside}, which is not followed`) &&
    error.message.endsWith(`flynn source set ${inside}`);
  await assert.rejects(headOf(at(`http://repository.invalid:${port}`), signal), refused);
  assert.ok(asked > 0);
  await assert.rejects(fetchInto(into(), at(`http://repository.invalid:${port}`), { signal }), /error: 302/);
});

test('a server that tells git more and more is not listened to for long', async (t) => {
  const commit = '1'.repeat(40);
  const line = (text: string): string => (text.length + 4).toString(16).padStart(4, '0') + text;
  const greeting = [line('# service=git-upload-pack\n'), '0000', line(`${commit} HEAD\0side-band-64k\n`)];
  const said = line(`\x02${'all is well, '.repeat(300)}\n`);
  const mostBytes = 64 * 2 ** 20;
  let toldBytes = 0;
  const server = createServer((request, response) => {
    if (request.method === 'GET') {
      response.setHeader('content-type', 'application/x-git-upload-pack-advertisement');
      response.end([...greeting, line(`${commit} refs/heads/main\n`), '0000'].join(''));
      return;
    }
    response.setHeader('content-type', 'application/x-git-upload-pack-result');
    response.write(line('NAK\n'));
    const tell = () => {
      while (toldBytes < mostBytes && !response.destroyed) {
        toldBytes += said.length;
        if (!response.write(said)) return;
      }
      response.end();
    };
    response.on('drain', tell);
    request.resume().on('end', tell);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  const { into } = await openRepository(t);
  const remote = { url: `http://127.0.0.1:${port}/x.git`, branch: 'main', env: {} };
  assert.equal(await headOf(remote, signal), commit);
  await assert.rejects(fetchInto(into(), remote, { signal }), { code: 'invalid', message: /tells git more than/ });
  assert.ok(toldBytes < mostBytes, 'it was ended');
});
