/** The way from a commit to the blob store, with real git. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import type { Operation } from '@flynn/controller/model';
import { FlynnError } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { deploy } from './deploy.ts';
import type { DeployDeps } from './deploy.ts';
import type { Platform } from './platform.ts';
import { testApp, testPlatform } from './testing-platform.ts';

type Changes = Partial<Platform> & { put?: DeployDeps['blobs']['put'] };

async function setUp(t: TestContext, { put: ownPut, ...changes }: Changes = {}) {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-git-'));
  t.after(() => rm(dir, { recursive: true }));
  const git = (...args: string[]) =>
    execFileSync('git', ['-C', dir, '-c', 'user.name=a', '-c', 'user.email=a@a', ...args]);
  git('init', '-q', '-b', 'main');
  await writeFile(join(dir, 'file'), 'content');
  git('add', '-A');
  git('commit', '-q', '-m', 'x');
  const stored: Buffer[] = [];
  const platform = testPlatform(changes);
  const { pushes, cancelled } = platform;
  const put: DeployDeps['blobs']['put'] = async (body) => {
    assert.ok(body instanceof Readable);
    const data = await buffer(body);
    stored.push(data);
    return { digest: `sha256:${createHash('sha256').update(data).digest('hex')}`, sizeBytes: data.length };
  };
  const said: string[] = [];
  const commit = git('rev-parse', 'HEAD').toString().trim();
  const pushed = { app: testApp, pushId: 'p', commit, branch: 'main', repository: join(dir, '.git'), quarantine: {} };
  const run = (signal: AbortSignal, blobs: DeployDeps['blobs'] = { put: ownPut ?? put }) =>
    deploy({ platform, blobs, log: silentLogger() }, pushed, { say: (line) => void said.push(line), signal });
  return { run, put, stored, pushes, cancelled, said };
}

const never = new AbortController().signal;

async function hasNoChild(): Promise<boolean> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  // One that ends meanwhile is nobody's child.
  const stats = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')));
  return !stats.some((stat) => stat.slice(stat.lastIndexOf(')')).split(' ')[2] === String(process.pid));
}

test('a blob store that begins to read after git has long ended gets the whole archive', async (t) => {
  const { run, put, stored, said } = await setUp(t);
  const slow: DeployDeps['blobs'] = {
    put: async (body, options) => {
      await waitFor(hasNoChild, { what: 'git to have ended', deadlineMs: 60_000 });
      return put(body, options);
    },
  };
  assert.equal(await run(never, slow), true);
  const names = execFileSync('tar', ['-t'], { input: stored[0] }).toString();
  assert.equal(names, 'file\n');
  assert.deepEqual(said, ['a line']);
});

test('a blob store that is away for a moment is tried again, with a whole archive', async (t) => {
  let attempts = 0;
  const world = await setUp(t);
  const flaky: DeployDeps['blobs'] = {
    put: async (body, options) => {
      attempts += 1;
      if (attempts === 1) throw new FlynnError('unavailable', 'away');
      return world.put(body, options);
    },
  };
  assert.equal(await world.run(never, flaky), true);
  assert.equal(attempts, 2);
  assert.equal(execFileSync('tar', ['-xO', 'file'], { input: world.stored[0] }).toString(), 'content');
});

test('a push whose answer never came is asked about again, so that it can be cancelled', async (t) => {
  const leaving = new AbortController();
  let asked = 0;
  const operation: Operation = {
    id: 'b',
    appId: 'a',
    kind: 'build',
    pushId: 'p',
    input: {},
    state: 'queued',
    output: {},
    createdAt: '',
  };
  const world = await setUp(t, {
    push: async () => {
      asked += 1;
      if (asked > 1) return [operation];
      leaving.abort();
      throw new FlynnError('cancelled', 'the client went away');
    },
  });
  assert.equal(await world.run(leaving.signal), false);
  assert.deepEqual(world.cancelled, ['b']);
});

test('what goes wrong on the way is told, with what to do', async (t) => {
  const refused = await setUp(t, {
    push: async () => {
      throw new FlynnError('conflict', 'the app is being deleted');
    },
  });
  assert.equal(await refused.run(never), false);
  assert.match(refused.said.join('\n'), /did not get through: the app is being deleted.*Push again/s);
  const large = await setUp(t, {
    put: async () => {
      throw new FlynnError('invalid', 'the commit has too many files: keep them elsewhere');
    },
  });
  assert.equal(await large.run(never), false);
  assert.match(large.said.join('\n'), /did not get through: the commit has too many files: keep them elsewhere\.$/);
});
