/** One etcd member on loopback, for tests: a local process, or a container of a given image. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';

const run = promisify(execFile);

export interface EtcdMember extends AsyncDisposable {
  /** For connectEtcd's `endpoints`. */
  readonly endpoint: string;
  readonly port: number;
  stop(): Promise<void>;
}

export type EtcdMemberOptions = {
  /** Default `etcd`, from the PATH. */
  binary?: string;
  /** Run a container of this image instead of a process; Docker has to be there. */
  image?: string;
  /** Kept after the stop; default: a temporary one that is removed. */
  dataDir?: string;
  /** Default: a free one. */
  port?: number;
};

/** Resolves when the member serves. It does not sync to disk: not for data anyone wants to keep. */
export async function startEtcdMember(options: EtcdMemberOptions = {}): Promise<EtcdMember> {
  const port = options.port ?? (await freePort());
  const peerPort = await freePort();
  const endpoint = `http://127.0.0.1:${port}`;
  const args = [
    '--unsafe-no-fsync',
    '--name=test',
    `--listen-client-urls=${endpoint}`,
    `--advertise-client-urls=${endpoint}`,
    `--listen-peer-urls=http://127.0.0.1:${peerPort}`,
    `--initial-advertise-peer-urls=http://127.0.0.1:${peerPort}`,
    `--initial-cluster=test=http://127.0.0.1:${peerPort}`,
    '--max-txn-ops=8192',
    '--log-level=error',
  ];
  const stop =
    options.image === undefined ? await startProcess(options, args) : await startContainer(options.image, args);
  try {
    await waitFor(() => isHealthy(endpoint), { what: `etcd at ${endpoint}`, deadlineMs: 30_000 });
  } catch (error) {
    await stop();
    throw error;
  }
  return { endpoint, port, stop, [Symbol.asyncDispose]: stop };
}

async function startProcess(options: EtcdMemberOptions, args: string[]): Promise<() => Promise<void>> {
  const binary = options.binary ?? 'etcd';
  const dataDir = options.dataDir ?? (await mkdtemp(path.join(tmpdir(), 'flynn-etcd-')));
  const child = spawn(binary, [...args, `--data-dir=${dataDir}`], { stdio: 'ignore' });
  try {
    await once(child, 'spawn');
  } catch (error) {
    throw new FlynnError('unavailable', `${binary} could not be started: ${messageOf(error)}. Install etcd`, {
      cause: error,
    });
  }
  return async () => {
    if (child.exitCode === null && child.signalCode === null) {
      const exited = once(child, 'exit');
      child.kill('SIGKILL');
      await exited;
    }
    if (options.dataDir === undefined) await rm(dataDir, { recursive: true, force: true });
  };
}

async function startContainer(image: string, args: string[]): Promise<() => Promise<void>> {
  const fixed = ['run', '--detach', '--label=flynn.test=1', '--network=host', '--tmpfs=/member', '--entrypoint=etcd'];
  const { stdout } = await run('docker', [...fixed, image, ...args, '--data-dir=/member/data'], { timeout: 120_000 });
  const id = stdout.trim();
  return async () => {
    await run('docker', ['rm', '--force', '--volumes', id], { timeout: 60_000 });
  };
}

async function isHealthy(endpoint: string): Promise<boolean> {
  const response = await fetch(`${endpoint}/health`, { signal: AbortSignal.timeout(1_000) });
  return /"health":\s*"true"/.test(await response.text());
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string')
    throw new FlynnError('internal', 'a listening server has no port');
  return address.port;
}
