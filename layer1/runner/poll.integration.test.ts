/** An app that follows a real repository: the runner looks with git, the controller pushes what it finds. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { createServer as createSilentServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join, normalize } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { apps, releases } from '@flynn/controller/api';
import { findApp } from '@flynn/controller/deps';
import { operations } from '@flynn/controller/operations/api';
import { createOnce } from '@flynn/controller/operations/intake';
import { hasOperationEnded } from '@flynn/controller/operations/state';
import type { Operation } from '@flynn/controller/model';
import { sources } from '@flynn/controller/source/api';
import { startTestBlobs } from '@flynn/controller/testing/blobs';
import { startTestController } from '@flynn/controller/testing';
import type { TestController } from '@flynn/controller/testing';
import { createControllerClient } from '@flynn/controller/client';
import { serviceToken } from '@flynn/controller/access/service-token';
import { loadConfig } from '@flynn/kit/config';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { closed } from '@flynn/kit/testing-sockets';
import { makeKey, startGitSshd } from '@flynn/kit/testing-sshd';
import { configSchema, identityOf } from './config.ts';
import { controllerEnv } from './controller-env.ts';
import { EnvWatch } from './env-watch.ts';
import { Reports } from './reports.ts';
import { runOperations } from './runner.ts';

const deadlineMs = 60_000;
const params = { app: 'shop' };
const identity = ['-c', 'user.name=t', '-c', 'user.email=t@example.com', '-c', 'init.defaultBranch=main'];

/** A repository behind a web server, as git reads it from plain files. */
async function startRepository(t: TestContext) {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-poll-test-'));
  t.after(() => rm(dir, { recursive: true, force: true }));
  const [work, bare] = [join(dir, 'work'), join(dir, 'shop.git')];
  const git = (...args: string[]) => execFileSync('git', [...identity, ...args], { encoding: 'utf8' }).trim();
  git('init', '--quiet', work);
  git('init', '--quiet', '--bare', bare);
  const server = createServer((request, response) => {
    const path = normalize(decodeURIComponent(new URL(request.url ?? '/', 'http://x').pathname));
    readFile(join(dir, path)).then(
      (bytes) => response.end(bytes),
      () => response.writeHead(404).end(),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  const commit = async (content: string, branch = 'main'): Promise<string> => {
    git('-C', work, 'checkout', '--quiet', '-B', branch);
    await writeFile(join(work, 'index.html'), content);
    git('-C', work, 'add', '.');
    git('-C', work, 'commit', '--quiet', '--message', content);
    git('-C', work, 'push', '--quiet', '--force', bare, branch);
    git('-C', bare, 'update-server-info');
    return git('-C', work, 'rev-parse', 'HEAD');
  };
  return { dir, bare, url: `http://127.0.0.1:${port}/shop.git`, commit };
}

async function pushed({ client }: TestController): Promise<Operation[]> {
  return (await client.call(operations.list, { params })).filter(({ kind }) => kind === 'build');
}

async function lookDone({ client }: TestController, polledAt: string | undefined) {
  await client.call(sources.poll, { params });
  const probe = async () => {
    const source = await client.call(sources.get, { params });
    // One that was under way when this was asked for has seen less: another follows.
    const isOver = source.pollId === undefined && source.isWanted !== true;
    return isOver && source.polledAt !== polledAt ? source : undefined;
  };
  return waitFor(probe, { what: 'a look at the repository', deadlineMs });
}

/** As the controller asks for one of an app that follows only what is outside. No name server knows the host. */
async function lookAt({ client, deps }: TestController, id: string, url: string): Promise<Operation> {
  const signal = AbortSignal.timeout(deadlineMs);
  const app = await findApp(deps, 'shop', signal);
  const input = { url, branch: 'main', commit: '', addresses: '127.0.0.1' };
  await createOnce(deps, app, [{ id, spec: { appId: app.id, kind: 'poll', pushId: id, input } }], signal);
  const probe = async () => {
    const operation = await client.call(operations.get, { params: { operation: id } });
    return hasOperationEnded(operation.state) && operation;
  };
  return waitFor(probe, { what: `the end of ${id}`, deadlineMs });
}

/** With a runner of its own, which looks. */
async function startWorld(t: TestContext) {
  const store = await startTestBlobs();
  const world = await startTestController();
  await world.client.call(apps.create, { body: { name: 'shop' } });
  const client = createControllerClient({ baseUrl: world.url, key: serviceToken(world.userKey, 'runner') });
  const who = identityOf(loadConfig(configSchema, { FLYNN_KEY: world.key, FLYNN_RUNNER_ID: 'runner' }));
  const stopping = new AbortController();
  const reports = new Reports(client, who);
  const { blobs } = store;
  const log = silentLogger();
  const env = new EnvWatch({ original: {}, source: controllerEnv(client, who), log });
  const deps = {
    identity: who,
    controller: client,
    reports,
    blobs,
    env,
    ownRegistries: { plain: [], only: undefined },
    slugRunnerImage: 'x',
    log,
    heartbeatMs: 50,
  };
  const ended = runOperations(deps, stopping.signal);
  t.after(async () => {
    stopping.abort();
    await ended;
    await client.close();
    await world[Symbol.asyncDispose]();
    await store[Symbol.asyncDispose]();
  });
  return { world, blobs };
}

test('a new commit is fetched and pushed once; a branch that is not there is told, and looking goes on', async (t) => {
  const repository = await startRepository(t);
  const { world, blobs } = await startWorld(t);

  const first = await repository.commit('one');
  await world.client.call(sources.put, { params, body: { url: repository.url, everyMs: 3_600_000 } });
  // There is nothing to build with here: that each push fails is its own business.
  await waitFor(async () => (await pushed(world)).length === 1, { what: 'the first push', deadlineMs });
  const [build] = await pushed(world);
  assert.equal(build?.input.commit, first);
  const archive = await text(await blobs.get(build?.input.sourceDigest ?? '', { signal: AbortSignal.timeout(60_000) }));
  assert.ok(archive.includes('index.html') && archive.includes('one') && !archive.includes('.git/'));

  // The push is there a moment before its commit is put down.
  const isKept = async () => {
    const source = await world.client.call(sources.get, { params });
    return source.commit !== undefined && source;
  };
  const before = await waitFor(isKept, { what: 'the commit to be put down', deadlineMs });
  assert.equal(before.commit, first);
  const same = await lookDone(world, before.polledAt);
  assert.deepEqual([same.commit, same.error, (await pushed(world)).length], [first, undefined, 1]);

  const body = { url: repository.url, branch: 'nowhere', everyMs: 3_600_000 };
  await world.client.call(sources.put, { params, body });
  const missing = await lookDone(world, same.polledAt);
  assert.equal(missing.error, `${repository.url} has no branch nowhere`);
  assert.equal(missing.failures >= 1, true);

  const second = await repository.commit('two', 'nowhere');
  const found = await lookDone(world, missing.polledAt);
  assert.deepEqual([found.commit, found.error, found.failures], [second, undefined, 0]);
  assert.equal((await pushed(world)).length, 2);

  await world.client.call(sources.put, { params, body: { url: `${repository.url}x`, everyMs: 3_600_000 } });
  const unreadable = await lookDone(world, found.polledAt);
  assert.match(unreadable.error ?? '', /cannot read http.*shop\.gitx: fatal: .*not found.*--deploy-key/);
});

test('of a repository that is followed the folder that the app is built from is sent, and one that is not there is told', async (t) => {
  const repository = await startRepository(t);
  const { world, blobs } = await startWorld(t);
  const setFolder = (folder: string) =>
    world.client.call(apps.update, { params, body: { meta: { 'build.folder': folder } } });
  await setFolder('apps/web');
  await repository.commit('of the top');
  await world.client.call(sources.put, { params, body: { url: repository.url, everyMs: 3_600_000 } });
  const isLooked = async () => {
    const source = await world.client.call(sources.get, { params });
    return source.polledAt !== undefined && source.pollId === undefined && source;
  };
  const missing = await waitFor(isLooked, { what: 'the first look', deadlineMs });
  assert.match(missing.error ?? '', /^apps\/web, the folder that shop is built from .* is not in commit/);
  await mkdir(join(repository.dir, 'work/apps/web'), { recursive: true });
  await writeFile(join(repository.dir, 'work/apps/web/index.html'), 'of the folder');
  const head = await repository.commit('of the top, again');
  const found = await lookDone(world, missing.polledAt);
  assert.deepEqual([found.commit, found.error], [head, undefined]);
  const [build] = await pushed(world);
  assert.equal(build?.input.folder, 'apps/web');
  const archive = await text(await blobs.get(build?.input.sourceDigest ?? '', { signal: AbortSignal.timeout(60_000) }));
  assert.ok(archive.includes('of the folder') && !archive.includes('of the top') && !archive.includes('apps/web'));
});

test('a look that is given addresses goes to these, and nowhere its server sends it', async (t) => {
  const repository = await startRepository(t);
  const { world } = await startWorld(t);
  const head = await repository.commit('one');
  const { port } = new URL(repository.url);
  const server = createServer((request, response) => {
    response.writeHead(301, { location: `http://127.0.0.1:${port}${request.url}` }).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const found = await lookAt(world, 'poll-there', `http://git.invalid:${port}/shop.git`);
  assert.deepEqual([found.state, found.output['commit']], ['complete', head]);
  const away = (server.address() as AddressInfo).port;
  const sent = await lookAt(world, 'poll-away', `http://git.invalid:${away}/shop.git`);
  assert.equal(sent.state, 'failed');
  assert.match(sent.error ?? '', /sends git to http:\/\/127\.0\.0\.1:\d+\/shop\.git, which is not followed/);
});

test("a repository that is not public is read over SSH with the app's key, and with no other", async (t) => {
  const { dir, bare, commit } = await startRepository(t);
  const { world } = await startWorld(t);
  const key = await makeKey(dir, 'deploy');
  const other = await makeKey(dir, 'other');
  const server = await startGitSshd(dir, 'deploy');
  t.after(() => server[Symbol.asyncDispose]());
  const giveKey = (text: string) =>
    world.client.call(releases.create, {
      params,
      body: { env: { SSH_CLIENT_KEY: text, SSH_CLIENT_HOSTS: [server.known, byName].join('\n') } },
    });
  const byName = server.known.replace('127.0.0.1', 'git.invalid');
  const url = `ssh://git@127.0.0.1:${server.port}${bare}`;
  const head = await commit('one');

  await giveKey(other);
  await world.client.call(sources.put, { params, body: { url, everyMs: 3_600_000 } });
  const isLooked = async () => {
    const source = await world.client.call(sources.get, { params });
    return source.polledAt !== undefined && source.pollId === undefined && source;
  };
  const refused = await waitFor(isLooked, { what: 'the first look', deadlineMs });
  assert.match(refused.error ?? '', /cannot read ssh:.*Permission denied.*--deploy-key/);
  assert.deepEqual(await pushed(world), []);

  await giveKey(key);
  const found = await lookDone(world, refused.polledAt);
  assert.deepEqual([found.commit, found.error], [head, undefined]);
  assert.deepEqual(
    (await pushed(world)).map(({ input }) => input.commit),
    [head],
  );

  const pinned = await lookAt(world, 'poll-there', `ssh://git@git.invalid:${server.port}${bare}`);
  assert.deepEqual([pinned.state, pinned.output['commit']], ['complete', head], pinned.error);
});

test('a look at a server that says nothing ends when it is to, whatever git has started for it', async (t) => {
  const { world } = await startWorld(t);
  const silent = createSilentServer((socket) => void socket.resume());
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
  t.after(() => silent.close());
  const connected = once(silent, 'connection');
  const { port } = silent.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}/shop.git`;
  await world.client.call(sources.put, { params, body: { url, everyMs: 3_600_000 } });
  const [socket] = (await connected) as [Socket];
  const gone = closed(socket);
  // The look may have begun a moment before it is put down.
  const underWay = async () => (await world.client.call(sources.get, { params })).pollId;
  const pollId = await waitFor(underWay, { what: 'the look to be put down', deadlineMs });
  await world.client.call(operations.cancel, { params: { operation: pollId }, body: {} });
  const look = () => world.client.call(operations.get, { params: { operation: pollId } });
  await waitFor(async () => (await look()).state === 'cancelled', { what: 'the end of the look', deadlineMs });
  await gone;
});
