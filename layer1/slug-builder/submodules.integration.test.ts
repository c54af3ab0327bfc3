/** Submodules over HTTP and SSH, by real git, sshd and keys. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createServer } from 'node:http';
import { mkdir, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { makeKey, startGitSshd } from '@flynn/kit/testing-sshd';
import { buildRoutes } from '@flynn/host-agent/builds/api';
import { compileSlug } from './compile.ts';
import { runSubmodules } from './context-submodules.ts';
import { baseEnv } from './environment.ts';
import { openPlace, succeeds } from './image-build-fixture.ts';
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

async function makeLayout(dir: string) {
  const base = await mkdtemp(join(dir, 'build-'));
  const layout = {
    appDir: join(base, 'app'),
    cacheDir: join(base, 'cache'),
    envDir: join(base, 'env'),
    runtimeDir: join(base, 'opt'),
    scratchDir: join(base, 'scratch'),
  };
  for (const path of Object.values(layout)) await mkdir(path);
  return layout;
}

/** Compiles an app whose submodule is at `url`; answers where it is then. */
async function compile(
  dir: string,
  files: Record<string, string>,
  appEnv: Record<string, string> = {},
): Promise<string> {
  const layout = await makeLayout(dir);
  for (const [name, text] of Object.entries({ Procfile: 'web: run', ...files })) {
    await writeFile(join(layout.appDir, name), text);
  }
  const env = baseEnv({ PATH: process.env['PATH'] }, { home: layout.appDir, commit: '' });
  const signal = AbortSignal.timeout(120_000);
  await compileSlug({ layout, appEnv, baseEnv: env, out: createOutput(() => {}), nowMs: 0, signal });
  return layout.appDir;
}

const modules = (url: string): string => `[submodule "my lib"]\n\tpath = vendor/lib\n\turl = ${url}\n`;

test('a submodule is in its place at its commit, without its history', { timeout: 280_000 }, async (t) => {
  const { dir, commit, url } = await setUp(t);
  const told = JSON.stringify({ 'vendor/lib': commit });
  const appDir = await compile(dir, { '.gitmodules': modules(url), '.flynn-submodules.json': told });
  assert.equal(await readFile(join(appDir, 'vendor/lib/lib.txt'), 'utf8'), 'of the submodule');
  assert.deepEqual(await readdir(join(appDir, 'vendor/lib')), ['lib.txt']);
  assert.ok(!(await readdir(appDir)).includes('.flynn-submodules.json'));
});

test('what cannot be fetched is told with what to do', { timeout: 280_000 }, async (t) => {
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
  { timeout: 280_000 },
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

test(
  'a Dockerfile’s context has what submodules hold, fetched by the app’s user with its key',
  { timeout: 280_000 },
  async (t) => {
    const { dir, bare, commit, url } = await setUp(t);
    const key = await makeKey(dir, 'client');
    await using server = await startGitSshd(dir, 'client');
    const told = JSON.stringify({ 'vendor/lib': commit });
    const source = (at: string) => ({
      Dockerfile: 'FROM x',
      '.dockerignore': '.gitmodules\n',
      '.gitmodules': modules(at),
      '.flynn-submodules.json': told,
    });
    await using place = await openPlace(succeeds);
    await place.build(source(url));
    const files = await place.context();
    assert.deepEqual([...files.keys()].sort(), ['.dockerignore', 'Dockerfile', 'vendor/lib/lib.txt']);
    assert.equal(files.get('vendor/lib/lib.txt'), 'of the submodule');
    const first = buildRoutes.build.body.parse(place.asked.body).contextDigest;
    await place.build(source(url));
    assert.equal(
      buildRoutes.build.body.parse(place.asked.body).contextDigest,
      first,
      'the engine finds its steps done',
    );

    place.asked.body = undefined;
    await assert.rejects(place.build(source(`${url}x`)), { name: 'StepFailure' });
    await assert.rejects(place.build({ ...source(url), '.flynn-submodules.json': '{"../up":"x"}' }), {
      code: 'invalid',
    });
    assert.equal(place.asked.body, undefined, 'nothing was built');

    // The step itself, as whoever runs this: ssh wants to know its user by name.
    const layout = await makeLayout(dir);
    const appEnv = { SSH_CLIENT_KEY: key, SSH_CLIENT_HOSTS: server.known };
    const input = { layout, appEnv, told, modules: modules(`ssh://git@127.0.0.1:${server.port}${bare}`) };
    const env = baseEnv({ PATH: process.env['PATH'] }, { home: layout.appDir, commit: '' });
    const signal = AbortSignal.timeout(120_000);
    await runSubmodules(input, { baseEnv: env, out: createOutput(() => {}), signal });
    assert.equal(await readFile(join(layout.appDir, 'vendor/lib/lib.txt'), 'utf8'), 'of the submodule');
  },
);
