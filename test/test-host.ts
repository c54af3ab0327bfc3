/**
 * A host for end-to-end tests on one machine: a network namespace with a container engine of its own, in which the same
 * commands run as on a real one. Needs root, iproute2, iptables and dockerd.
 */
import { spawn } from 'node:child_process';
import { mkdir, open, readFile, rm } from 'node:fs/promises';
import { request } from 'node:http';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { defaultSocket, engineAt, ensureEngine, isEngineUp } from '@flynn/bootstrap/engine';
import { ensureImages } from '@flynn/bootstrap/images/build';
import { repository } from '@flynn/bootstrap/images/bundle';
import { type ProgramOptions, type ProgramResult, runProgram, tryProgram } from '@flynn/bootstrap/program';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import {
  type HostNetwork,
  bridgeAddress,
  createHostNetwork,
  hostNetworkOf,
  namespaceFile,
  removeHostNetwork,
} from './host-network.ts';
import { type HostTraits, hostProcesses, killHostProcesses, unmountBelow } from './host-processes.ts';

const root = '/var/lib/flynn-test';

export type ExecOptions = Partial<Omit<ProgramOptions, 'env'>> & { env?: Record<string, string> };
export type ExecResult = ProgramResult;

/**
 * INVARIANTS: all of its files are below `directory`, all of its processes are found by `traits`, so disposing it leaves
 * nothing, whatever state a test left it in.
 */
export class TestHost implements AsyncDisposable {
  readonly name: string;
  /** On the network that test hosts share with this machine. */
  readonly address: string;
  /** This machine as the host and its containers reach it. */
  readonly gateway = bridgeAddress;
  readonly directory: string;
  readonly dockerSocket: string;
  readonly #network: HostNetwork;
  readonly #traits: HostTraits;
  readonly #index: number;

  constructor(name: string, index: number) {
    this.name = name;
    this.directory = join(root, name);
    this.dockerSocket = join(this.directory, 'docker.sock');
    this.#index = index;
    this.#network = hostNetworkOf(name, index);
    this.address = this.#network.address;
    this.#traits = {
      namespaceFile: namespaceFile(this.#network),
      directory: this.directory,
      controlGroup: `/flynntest-${name}`,
    };
  }

  async create(hasImages: boolean): Promise<void> {
    await this.#destroy();
    await mkdir(this.directory, { recursive: true, mode: 0o700 });
    await createHostNetwork(this.#network);
    await this.startEngine();
    if (hasImages) await this.#loadImages();
  }

  /** Answers once the engine does. */
  async startEngine(): Promise<void> {
    if (await isEngineUp(this.dockerSocket)) return;
    const logFile = join(this.directory, 'dockerd.log');
    await using log = await open(logFile, 'a');
    const args = [
      ['-H', `unix://${this.dockerSocket}`],
      ['--data-root', join(this.directory, 'data')],
      ['--exec-root', join(this.directory, 'exec')],
      ['-p', join(this.directory, 'docker.pid')],
      ['--bip', `172.30.${this.#index}.1/24`],
      ['--exec-opt', 'native.cgroupdriver=cgroupfs'],
      ['--cgroup-parent', this.#traits.controlGroup],
      ['--containerd-namespace', `flynntest-${this.name}`],
      ['--containerd-plugins-namespace', `flynntest-plugins-${this.name}`],
    ].flat();
    const daemon = spawn('nsenter', [`--net=${namespaceFile(this.#network)}`, 'dockerd', ...args], {
      detached: true,
      cwd: '/',
      stdio: ['ignore', log.fd, log.fd],
    });
    daemon.once('error', () => {
      // It does not answer then, and the wait below says so.
    });
    daemon.unref();
    try {
      await waitFor(() => isEngineUp(this.dockerSocket), {
        what: `the engine of ${this.name}`,
        deadlineMs: 60_000,
        intervalMs: 100,
      });
    } catch (error) {
      const lines = (await readFile(logFile, 'utf8')).trim().split('\n').slice(-5).join('\n');
      throw new FlynnError('unavailable', `${messageOf(error)}\n${lines}`, { cause: error });
    }
  }

  /** The engine and all containers, at once, as if their machine had lost power; the host agent lives on. */
  async killEngine(): Promise<void> {
    await killHostProcesses(this.#traits, (one) => one.isEngine || one.isContainer);
    await this.#forgetRun();
  }

  /** Everything that runs, at once. Disks stay. Afterwards `startEngine`, then what the machine's boot would start. */
  async cutPower(): Promise<void> {
    await killHostProcesses(this.#traits, () => true);
    await this.#forgetRun();
  }

  /** The program and arguments that run `args` on this host, for tests that need the process itself. */
  command(args: readonly [string, ...string[]]): [string, string[]] {
    return ['nsenter', [`--net=${namespaceFile(this.#network)}`, ...args]];
  }

  /** Any exit code is an answer. `flynn`, `node` and `git` are the repository's and the machine's. */
  async exec(args: readonly [string, ...string[]], options: ExecOptions = {}): Promise<ExecResult> {
    const [program, programArgs] = this.command(args);
    return tryProgram(program, programArgs, {
      timeoutMs: 120_000,
      cwd: this.directory,
      ...options,
      env: {
        ...withoutSettings(process.env),
        PATH: `${repository}/bin:${repository}/node_modules/.bin:${process.env['PATH'] ?? ''}`,
        HOME: this.directory,
        ...options.env,
      },
    });
  }

  /** Ids of this host's processes, containers' included, whose command line contains the text. */
  pids(text: string): number[] {
    return hostProcesses(this.#traits)
      .filter(({ command }) => command.includes(text))
      .map(({ pid }) => pid);
  }

  /** Command lines of this host's processes, containers' included, that contain the text. */
  processes(text: string): string[] {
    return hostProcesses(this.#traits)
      .map(({ command }) => command)
      .filter((command) => command.includes(text));
  }

  /** Built once on this machine's engine and copied, which takes a tenth of building them. */
  async #loadImages(): Promise<void> {
    await ensureEngine();
    const tags = [...(await ensureImages()).values()];
    const docker = engineAt(this.dockerSocket);
    const present = new Set((await docker.listImages()).flatMap((image) => image.RepoTags ?? []));
    const missing = tags.filter((tag) => !present.has(tag));
    if (missing.length === 0) return;
    const loading = await docker.loadImage(await savedImages(defaultSocket, missing));
    for await (const _progress of loading);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#destroy();
  }

  /** What a running engine leaves in its exec root keeps the next one from starting its containers. */
  async #forgetRun(): Promise<void> {
    await unmountBelow(this.directory);
    await rm(join(this.directory, 'exec'), { recursive: true, force: true });
    await rm(join(this.directory, 'docker.pid'), { force: true });
    await rm(this.dockerSocket, { force: true });
  }

  async #destroy(): Promise<void> {
    await killHostProcesses(this.#traits, () => true);
    await unmountBelow(this.directory);
    await removeHostNetwork(this.#network);
    await removeControlGroups(this.#traits.controlGroup);
    await rm(this.directory, { recursive: true, force: true });
  }
}

/**
 * With its network and engine, and in that the platform's images unless `hasImages` is false. `index` from 0 tells hosts
 * that exist at once apart.
 */
export async function createTestHost(options: { name: string; index: number; hasImages?: boolean }): Promise<TestHost> {
  const host = new TestHost(options.name, options.index);
  try {
    await host.create(options.hasImages ?? true);
    return host;
  } catch (error) {
    await host[Symbol.asyncDispose]();
    throw error;
  }
}

/** The engine's client library saves one image at a time, each with all layers that several share. */
function savedImages(socket: string, tags: readonly string[]): Promise<Readable> {
  const names = tags.map((tag) => `names=${encodeURIComponent(tag)}`).join('&');
  return new Promise((resolve, reject) => {
    request({ socketPath: socket, path: `/images/get?${names}` }, (response) => {
      if (response.statusCode === 200) resolve(response);
      else reject(new FlynnError('internal', `the engine did not save the images: ${response.statusCode}`));
    })
      .once('error', reject)
      .end();
  });
}

/** What configures this machine's own cluster, or the test runner, is not the host's. */
function withoutSettings(env: NodeJS.ProcessEnv): Record<string, string | undefined> {
  return Object.fromEntries(
    Object.entries(env).map(([name, value]) => [name, /^(FLYNN_|NODE_TEST|XDG_|SUDO_)/.test(name) ? undefined : value]),
  );
}

/** Empty control groups of containers that were killed. */
async function removeControlGroups(group: string): Promise<void> {
  const script =
    'for root in /sys/fs/cgroup /sys/fs/cgroup/*; do [ -d "$root$1" ] && find "$root$1" -depth -type d -exec rmdir {} + ; done 2>/dev/null; true';
  await runProgram('sh', ['-c', script, 'sh', group], { timeoutMs: 20_000 });
}
