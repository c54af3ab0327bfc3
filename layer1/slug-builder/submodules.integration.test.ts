/** Submodules over HTTP and SSH, by real git, sshd and keys. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createServer } from 'node:http';
import { mkdir, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { makeKey, startGitSshd } from '@flynn/kit/testing-sshd';
import { compileSlug } from './compile.ts';
import { baseEnv } from './environment.ts';
import { createOutput } from './output.ts';

/** A repository with one commit, served over HTTP as plain files are. */
async function setUp(t: TestContext) {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-submodules-'));
  const work = join(dir, 'work');
  const bare = join(dir, 'www/lib.git');
  const git = (...args: string[]): string =>
    execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@example.com', '-C', work, ...args], {
      encoding: 'utf8',
    });
  await mkdir(work);
  git('init', '--quiet', '-b', 'main');
  await writeFile(join(work, 'lib.txt'), 'of the submodule');
  git('add', '.');
  git('commit', '--quiet', '-m', 'one');
  const commit = git('rev-parse', 'HEAD').trim();
  await writeFile(join(work, 'lib.txt'), 'newer');
  git('commit', '--quiet', '-am', 'two');
  execFileSync('git', ['clone', '--quiet', '--bare', work, bare]);
  execFileSync('git', ['-C', bare, 'update-server-info']);
  const server = createServer((request, response) => {
    readFile(join(dir, 'www', new URL(request.url ?? '/', 'http://x').pathname)).then(
      (data) => response.end(data),
      () => response.writeHead(404).end(),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  assert.ok(address !== null && typeof address === 'object');
  t.after(async () => {
    server.close();
    await rm(dir, { recursive: true });
  });
  return { dir, bare, commit, url: `http://127.0.0.1:${address.port}/lib.git` };
}

/** Compiles an app whose submodule is at `url`; answers where it is then. */
async function compile(
  dir: string,
  files: Record<string, string>,
  appEnv: Record<string, string> = {},
): Promise<string> {
  const base = await mkdtemp(join(dir, 'build-'));
  const layout = {
    appDir: join(base, 'app'),
    cacheDir: join(base, 'cache'),
    envDir: join(base, 'env'),
    runtimeDir: join(base, 'opt'),
    scratchDir: join(base, 'scratch'),
  };
  for (const path of Object.values(layout)) await mkdir(path);
  for (const [name, text] of Object.entries({ Procfile: 'web: run', ...files })) {
    await writeFile(join(layout.appDir, name), text);
  }
  const env = baseEnv({ PATH: process.env['PATH'] }, { home: layout.appDir, commit: '' });
  const signal = AbortSignal.timeout(60_000);
  await compileSlug({ layout, appEnv, baseEnv: env, out: createOutput(() => {}), nowMs: 0, signal });
  return layout.appDir;
}

const modules = (url: string): string => `[submodule "my lib"]\n\tpath = vendor/lib\n\turl = ${url}\n`;

test('a submodule is in its place at its commit, without its history', { timeout: 90_000 }, async (t) => {
  const { dir, commit, url } = await setUp(t);
  const told = JSON.stringify({ 'vendor/lib': commit });
  const appDir = await compile(dir, { '.gitmodules': modules(url), '.flynn-submodules.json': told });
  assert.equal(await readFile(join(appDir, 'vendor/lib/lib.txt'), 'utf8'), 'of the submodule');
  assert.deepEqual(await readdir(join(appDir, 'vendor/lib')), ['lib.txt']);
  assert.ok(!(await readdir(appDir)).includes('.flynn-submodules.json'));
});

test('what cannot be fetched is told with what to do', { timeout: 90_000 }, async (t) => {
  const { dir, commit, url } = await setUp(t);
  const told = JSON.stringify({ 'vendor/lib': commit });
  const wrong: [Record<string, string>, RegExp][] = [
    [{}, /vendor\/lib is a commit of another repository/],
    [{ '.gitmodules': modules('../lib.git') }, /write the whole address/],
    [{ '.gitmodules': modules('file:///etc') }, /cannot be fetched from here/],
    [{ '.gitmodules': modules(`${url}x`) }, /could not fetch the submodule vendor\/lib[^]*SSH_CLIENT_KEY/],
  ];
  for (const [files, message] of wrong) {
    await assert.rejects(compile(dir, { ...files, '.flynn-submodules.json': told }), { code: 'invalid', message });
  }
});

test(
  "a private submodule is fetched with the app's key, from the host the app names",
  { timeout: 90_000 },
  async (t) => {
    const { dir, bare, commit } = await setUp(t);
    const key = await makeKey(dir, 'client');
    const other = await makeKey(dir, 'other');
    await using server = await startGitSshd(dir, 'client');
    const url = `ssh://git@127.0.0.1:${server.port}${bare}`;
    const files = { '.gitmodules': modules(url), '.flynn-submodules.json': JSON.stringify({ 'vendor/lib': commit }) };
    const hosts = server.known;
    const appDir = await compile(dir, files, { SSH_CLIENT_KEY: key, SSH_CLIENT_HOSTS: hosts });
    assert.equal(await readFile(join(appDir, 'vendor/lib/lib.txt'), 'utf8'), 'of the submodule');

    const refused: Record<string, string>[] = [
      {},
      { SSH_CLIENT_KEY: other },
      {
        SSH_CLIENT_KEY: key,
        SSH_CLIENT_HOSTS: `[127.0.0.1]:${server.port} ${await readFile(join(dir, 'other.pub'), 'utf8')}`,
      },
    ];
    for (const env of refused)
      await assert.rejects(compile(dir, files, env), { code: 'invalid', message: /could not fetch the submodule/ });
    await assert.rejects(compile(dir, files, { SSH_CLIENT_KEY: 'ssh-ed25519 AAAA' }), {
      message: /is not a private key/,
    });
  },
);
