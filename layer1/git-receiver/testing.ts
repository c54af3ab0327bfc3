/** For tests: a receiver whose controller and blob store are servers of the test, with real git and real ssh to reach it. */
import { execFile, execFileSync, spawn } from 'node:child_process';
import type { ChildProcessWithoutNullStreams } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { createBlobClient } from '@flynn/blobstore/client';
import { openFilesystem } from '@flynn/blobstore/filesystem';
import { blobHandlers } from '@flynn/blobstore/server';
import { apps, deployments } from '@flynn/controller/api';
import { keys } from '@flynn/controller/keys/api';
import { operations } from '@flynn/controller/operations/api';
import type { Operation } from '@flynn/controller/model';
import { pause } from '@flynn/kit/clock';
import { FlynnError } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import { handle, startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import type { ServerEvent } from '@flynn/kit/routes';
import { createPlatform } from './platform.ts';
import type { Push } from './platform.ts';
import { startReceiver } from './server.ts';

type Line = string | (() => Promise<void>);
/** What the operations of a push say and how they end. */
type Script = { lines: Line[]; fails?: 'build' | 'release' | 'deploy' };

const underWay = { id: 'd', newReleaseId: 'r', state: 'running' as const, progress: {}, createdAt: '' };

const execute = (
  command: string,
  args: string[],
  options: { cwd?: string; env?: Record<string, string> } = {},
): Promise<{ code: number; output: string }> =>
  new Promise((resolve) => {
    const env = { PATH: process.env['PATH'] ?? '', HOME: '/nonexistent', GIT_CONFIG_NOSYSTEM: '1', ...options.env };
    execFile(command, args, { ...options, env, maxBuffer: 64 * 1024 ** 2 }, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === 'number' ? error.code : 1;
      resolve({ code, output: stdout + stderr });
    });
  });

export async function setUp(
  t: TestContext,
  script: (pushIndex: number) => Script = () => ({ lines: ['-----> Building'] }),
  keyType = 'ed25519',
  waiting: { limitMs?: number; tellMs?: number; lookMs?: number; stallMs?: number } = {},
) {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-git-'));
  const log = silentLogger();
  for (const name of ['known', 'unknown', 'host']) {
    execFileSync('ssh-keygen', [
      '-q',
      '-t',
      name === 'known' ? keyType : 'ed25519',
      '-N',
      '',
      '-C',
      name,
      '-f',
      join(dir, name),
    ]);
  }
  const [type, encoded = ''] = (await readFile(join(dir, 'known.pub'), 'utf8')).split(' ');
  const fingerprint = `SHA256:${createHash('sha256').update(Buffer.from(encoded, 'base64')).digest('base64').replace(/=+$/, '')}`;

  const pushes: Push[] = [];
  const cancelled: string[] = [];
  const meta: Record<string, string> = {};
  /** Ids of apps that a deployment of goes on. */
  const deploying = new Set<string>();
  const operationsById = new Map<string, { operation: Operation; script: Script }>();
  const handlers = [
    handle(keys.get, async ({ params }) => {
      if (params.fingerprint !== fingerprint) throw new FlynnError('not_found', 'no such key');
      return { fingerprint, publicKey: `${type} ${encoded}`, comment: '', createdAt: '' };
    }),
    handle(apps.get, async ({ params }) => {
      if (!/^(app|other|app-\d+)$/.test(params.app)) throw new FlynnError('not_found', 'no such app');
      return {
        id: `id-${params.app}`,
        name: params.app,
        meta: { ...meta },
        isSystem: false,
        deployTimeoutMs: 1,
        createdAt: '',
        updatedAt: '',
      };
    }),
    handle(deployments.list, async ({ params }) =>
      deploying.has(params.app) ? [{ ...underWay, appId: params.app }] : [],
    ),
    handle(operations.push, async ({ params, body }) => {
      const { expiresInMs, ...push } = body;
      pushes.push({ ...push, ...(expiresInMs === undefined ? {} : { expiresInMs }) });
      const plan = script(pushes.length - 1);
      return (['build', 'release', 'deploy'] as const).map((kind) => {
        const id = `${kind}-${body.pushId}`;
        const operation: Operation = {
          id,
          appId: params.app,
          kind,
          pushId: body.pushId,
          input: {},
          state: 'queued',
          output: {},
          createdAt: '',
        };
        operationsById.set(id, { operation, script: plan });
        return operation;
      });
    }),
    handle(operations.log, async ({ params }) => tellLog(params.operation)),
    handle(operations.cancel, async ({ params, signal }) => {
      // Whoever does not wait for it is told apart.
      await pause(200, signal);
      cancelled.push(params.operation);
      const found = operationsById.get(params.operation);
      if (found === undefined) throw new FlynnError('not_found', 'no such operation');
      return { ...found.operation, state: 'cancelled' as const };
    }),
  ];
  async function* tellLog(id: string): AsyncGenerator<ServerEvent> {
    const found = operationsById.get(id);
    if (found === undefined) throw new FlynnError('not_found', 'no such operation');
    const { operation, script } = found;
    let number = 0;
    if (operation.kind === 'build') {
      for (const line of script.lines) {
        if (typeof line === 'function') await line();
        else yield { id: String((number += 1)), event: 'line', data: { text: line } };
      }
    }
    const isFailed = script.fails === operation.kind;
    yield {
      event: 'end',
      data: { ...operation, state: isFailed ? 'failed' : 'complete', ...(isFailed ? { error: 'exit code 1' } : {}) },
    };
  }

  const storage = await openFilesystem(join(dir, 'blobs'), { nowMs: Date.now() });
  const server = await startServer({
    name: 'controller',
    handlers: [...handlers, ...blobHandlers(storage)],
    host: '127.0.0.1',
    port: 0,
    log,
  });
  const controller = new HttpClient({ baseUrl: server.url, name: 'the controller' });
  const blobs = createBlobClient({ baseUrl: server.url, key: 'k' });
  const receiver = await startReceiver({
    host: '127.0.0.1',
    port: 0,
    hostKey: await readFile(join(dir, 'host'), 'utf8'),
    repositoryDir: join(dir, 'repos'),
    hookCommand: [process.execPath, join(import.meta.dirname, 'main.ts'), 'hook'],
    hookDir: join(dir, 'hooks'),
    platform: createPlatform(controller),
    blobs,
    log,
    waiting,
  });
  let isStopped = false;
  const stop = async (drainMs: number) => {
    if (!isStopped) await receiver.stop({ drainMs });
    isStopped = true;
  };
  t.after(async () => {
    await stop(0);
    await Promise.all([controller.close(), blobs.close()]);
    await server.close();
    await rm(dir, { recursive: true });
  });

  const sshArgs = (key: string, port = receiver.port) => [
    '-i',
    join(dir, key),
    '-F',
    '/dev/null',
    '-o',
    'IdentitiesOnly=yes',
    '-o',
    'IdentityAgent=none',
    '-o',
    'StrictHostKeyChecking=no',
    '-o',
    'UserKnownHostsFile=/dev/null',
    '-p',
    String(port),
  ];
  const gitEnv = (key = 'known', port = receiver.port) => ({
    GIT_SSH_COMMAND: ['ssh', ...sshArgs(key, port)].join(' '),
    GIT_CONFIG_GLOBAL: '/dev/null',
  });
  const work = join(dir, 'work');
  const git = (args: string[], options: { key?: string; cwd?: string; sshPort?: number } = {}) =>
    execute('git', args, { cwd: options.cwd ?? work, env: gitEnv(options.key, options.sshPort) });
  const commit = async (files: Record<string, string | Buffer>) => {
    for (const [name, data] of Object.entries(files)) await writeFile(join(work, name), data);
    await git(['add', '-A']);
    await git(['-c', 'user.name=a', '-c', 'user.email=a@a', 'commit', '-q', '-m', 'x']);
    return (await git(['rev-parse', 'HEAD'])).output.trim();
  };
  await mkdir(work);
  await git(['init', '-q', '-b', 'main']);
  const remote = (app = 'app') => `ssh://git@127.0.0.1:${receiver.port}/${app}.git`;
  const ssh = (key: string, ...command: string[]) => execute('ssh', [...sshArgs(key), 'git@127.0.0.1', ...command]);
  return {
    dir,
    work,
    git,
    commit,
    remote,
    ssh,
    sshArgs,
    gitEnv,
    pushes,
    cancelled,
    meta,
    deploying,
    blobs,
    receiver,
    stop,
  };
}

export async function remoteHead(world: Awaited<ReturnType<typeof setUp>>, app = 'app'): Promise<string> {
  const { output } = await world.git(['ls-remote', world.remote(app), 'refs/heads/main']);
  return /^([0-9a-f]{40})\t/m.exec(output)?.[1] ?? '';
}

/** Fetches by ssh alone, and reads no further once the pack has begun, so that everything on the way is full. */
export async function startFetch(
  world: Awaited<ReturnType<typeof setUp>>,
  head: string,
): Promise<ChildProcessWithoutNullStreams> {
  const client = spawn('ssh', [...world.sshArgs('known'), 'git@127.0.0.1', "git-upload-pack '/app.git'"]);
  const want = `want ${head} ofs-delta\n`;
  client.stdin.write(`${(want.length + 4).toString(16).padStart(4, '0')}${want}00000009done\n`);
  const begun = Promise.withResolvers<void>();
  let said = '';
  const look = (data: Buffer) => {
    said = `${said}${data.toString('latin1')}`.slice(-1_000_000);
    if (!said.includes('PACK')) return;
    client.stdout.off('data', look).pause();
    begun.resolve();
  };
  client.stdout.on('data', look);
  await begun.promise;
  return client;
}
