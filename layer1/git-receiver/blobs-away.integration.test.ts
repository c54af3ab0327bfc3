/** A push while the blob store has no room, or is killed in the middle: real git, the blob store as a program of its own. */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { createBlobClient } from '@flynn/blobstore/client';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { freePort } from '@flynn/kit/testing-ports';
import { deploy } from './deploy.ts';
import type { DeployDeps } from './deploy.ts';
import { testApp, testPlatform } from './testing-platform.ts';

const mebibyte = 1024 ** 2;
const deadlineMs = 60_000;

/** A repository, a platform that takes every push, and a blob store in a folder, on a small disk of its own if so wished. */
async function setUp(t: TestContext, { diskBytes }: { diskBytes?: number } = {}) {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-blobs-away-'));
  const cleanUps: (() => unknown)[] = [() => rm(dir, { recursive: true, force: true })];
  t.after(async () => {
    for (const cleanUp of cleanUps.toReversed()) await cleanUp();
  });
  const storageDir = join(dir, 'blobs');
  await mkdir(storageDir);
  if (diskBytes !== undefined) {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${diskBytes}`, 'tmpfs', storageDir]);
    cleanUps.push(() => execFileSync('umount', ['--lazy', storageDir]));
  }
  const repository = join(dir, 'repository');
  const git = (...args: string[]) =>
    execFileSync('git', ['-C', repository, '-c', 'user.name=a', '-c', 'user.email=a@a', ...args], { encoding: 'utf8' });
  await mkdir(repository);
  git('init', '--quiet', '--initial-branch', 'main');
  const commit = async (bytes: number): Promise<string> => {
    await writeFile(join(repository, 'file'), randomBytes(bytes));
    git('add', '--all');
    git('commit', '--quiet', '--message', `${bytes} bytes`);
    return git('rev-parse', 'HEAD').trim();
  };

  // It comes back where it was: nobody is to have taken that port meanwhile.
  const port = await freePort();
  let child: ChildProcess | undefined;
  const start = async (): Promise<void> => {
    const env = { PATH: process.env['PATH'], FLYNN_KEY: 'k', FLYNN_STORAGE_DIR: storageDir, PORT: String(port) };
    const program = join(import.meta.dirname, '../blobstore/main.ts');
    const started = spawn(process.execPath, [program], { env, stdio: ['ignore', 'pipe', 'inherit'] });
    child = started;
    let said = '';
    for await (const chunk of started.stdout.iterator({ destroyOnReturn: false })) {
      said += String(chunk);
      if (!/"port":\d+,"dir"/.test(said)) continue;
      started.stdout.resume();
      return;
    }
    throw new Error(`the blob store did not start: ${said}`);
  };
  const kill = async (): Promise<void> => {
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  };
  cleanUps.push(kill);
  await start();
  const blobs = createBlobClient({ baseUrl: async () => `http://127.0.0.1:${port}`, key: 'k' });
  cleanUps.push(() => blobs.close());

  const platform = testPlatform();
  const { pushes } = platform;
  const said: string[] = [];
  const push = async (pushed: string, sending: DeployDeps['blobs'] = blobs): Promise<boolean> => {
    const input = {
      app: testApp,
      pushId: `p-${pushed}`,
      commit: pushed,
      branch: 'main',
      repository: join(repository, '.git'),
    };
    const deps = { platform, blobs: sending, log: silentLogger() };
    const signal = AbortSignal.timeout(deadlineMs);
    return deploy(deps, { ...input, quarantine: {} }, { say: (line) => void said.push(line), signal });
  };
  const partial = async (): Promise<number> => {
    const names = await readdir(join(storageDir, 'tmp'));
    const sizes = await Promise.all(names.map(async (name) => (await stat(join(storageDir, 'tmp', name))).size));
    return sizes.reduce((sum, size) => sum + size, 0);
  };
  return { blobs, pushes, said, commit, push, kill, start, partial };
}

test('a blob store without room refuses a push in words and at once, keeps nothing of it, and takes the next', async (t) => {
  const world = await setUp(t, { diskBytes: 4 * mebibyte });
  const large = await world.commit(24 * mebibyte);
  let sent = 0;
  const counting: DeployDeps['blobs'] = { put: (...asked) => ((sent += 1), world.blobs.put(...asked)) };
  assert.equal(await world.push(large, counting), false);
  assert.equal(sent, 1, 'nobody waits for room');
  assert.match(
    world.said.join('\n'),
    /The push did not get through: there is no room for the blob: free disk space on the blob store/,
  );
  assert.deepEqual(world.pushes, [], 'nothing was queued');
  assert.equal(await world.partial(), 0);
  const small = await world.commit(mebibyte);
  assert.equal(await world.push(small), true, world.said.join('\n'));
  assert.deepEqual(
    world.pushes.map(({ commit }) => commit),
    [small],
  );
});

test('a blob store that is killed in the middle of a push gets it whole once it is back', async (t) => {
  const world = await setUp(t);
  const large = await world.commit(48 * mebibyte);
  const killed = Promise.withResolvers<void>();
  /** Stays in the middle until then. */
  async function* held(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    let sent = 0;
    for await (const chunk of body) {
      yield chunk;
      sent += chunk.length;
      if (sent > 8 * mebibyte) await killed.promise;
    }
  }
  const pushing = world.push(large, {
    put(body, options) {
      assert.ok(body instanceof Readable);
      return world.blobs.put(Readable.from(held(body), { objectMode: false }), options);
    },
  });
  await waitFor(async () => (await world.partial()) > mebibyte, { what: 'the upload', deadlineMs });
  await world.kill();
  killed.resolve();
  await world.start();
  assert.equal(await pushing, true, world.said.join('\n'));
  const [push] = world.pushes;
  assert.equal(world.pushes.length, 1);
  const stored = await text(
    await world.blobs.get(push?.sourceDigest ?? '', { signal: AbortSignal.timeout(deadlineMs) }),
  );
  assert.ok(stored.length > 0);
  const { sizeBytes } = await world.blobs.stat(push?.sourceDigest ?? '', { signal: AbortSignal.timeout(deadlineMs) });
  assert.ok(sizeBytes > 48 * mebibyte, `${sizeBytes}`);
});
