/**
 * One of several hosts on one machine: a network namespace with a container engine of its own, in which the same commands
 * run as on a real one. Needs root, iproute2, iptables and dockerd.
 */
import { spawn } from 'node:child_process';
import { mkdir, open, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { isEngineUp } from '../machine/engine.ts';
import { repository } from '../images/bundle.ts';
import { type ProgramOptions, type ProgramResult, runProgram, tryProgram } from '../machine/program.ts';
import { createDisk, dataOf, fillDisk, freeDisk, mountDisk } from './disk.ts';
import { copyImages, dropImages } from './host-images.ts';
import {
  type HostFamily,
  type HostNetwork,
  cutHostNetwork,
  ensureHostNetwork,
  hostNetworkOf,
  namespaceFile,
  removeHostNetwork,
  setLink,
  setRate,
  silenceHost,
} from './network.ts';
import {
  type HostProcess,
  type HostTraits,
  hostProcesses,
  killHostProcesses,
  ownPrograms,
  unmountBelow,
} from './processes.ts';

export type ExecOptions = Partial<Omit<ProgramOptions, 'env'>> & { env?: Record<string, string> };
export type ExecResult = ProgramResult;

/**
 * INVARIANTS: all of its files are below `directory`, all of its processes are found by `traits`, so disposing it leaves
 * nothing, whatever state it is in.
 */
export class TestHost implements AsyncDisposable {
  readonly name: string;
  /** On the network that test hosts share with this machine; behind NAT on its own. */
  readonly address: string;
  readonly isBehindNat: boolean;
  /** This machine as the host and its containers reach it. */
  readonly gateway: string;
  readonly directory: string;
  readonly dockerSocket: string;
  /** Its port of the bridge, as this machine names it. */
  readonly link: string;
  readonly #network: HostNetwork;
  readonly #traits: HostTraits;
  readonly #index: number;

  /**
   * `index` from 0 to 99 tells hosts of a family that exist at once apart. Nobody outside reaches one that is behind NAT, not even
   * this machine.
   */
  constructor(family: HostFamily, name: string, index: number, options: { isBehindNat?: boolean } = {}) {
    this.name = name;
    this.gateway = family.gateway;
    this.directory = join(family.root, name);
    this.dockerSocket = join(this.directory, 'docker.sock');
    this.#index = index;
    this.#network = hostNetworkOf(family, name, index, options);
    this.isBehindNat = this.#network.nat !== undefined;
    this.address = this.#network.address;
    this.link = this.#network.link;
    this.#traits = {
      namespaceFile: namespaceFile(this.#network),
      directory: this.directory,
      controlGroup: `/${this.#network.namespace}`,
    };
  }

  /**
   * A new one, whatever was there before, whose engine does not run yet. With `diskBytes` its engine has a disk of its own of
   * this size, else it shares this machine's.
   */
  async create(options: { diskBytes?: number } = {}): Promise<void> {
    await this.#destroy();
    await this.ensure();
    if (options.diskBytes !== undefined) await createDisk(this.directory, options.diskBytes);
  }

  /** Directory and network as they have to be; nothing runs by this alone. */
  async ensure(): Promise<void> {
    await mkdir(this.directory, { recursive: true, mode: 0o700 });
    await ensureHostNetwork(this.#network);
  }

  /** Answers once the engine does. */
  async startEngine(): Promise<void> {
    if (await this.#isEngineThere()) return;
    // What one that ended without a word left, or a power cut took.
    await this.killEngine();
    await this.ensure();
    await mountDisk(this.directory);
    const logFile = join(this.directory, 'dockerd.log');
    await using log = await open(logFile, 'a');
    const args = [
      ['-H', `unix://${this.dockerSocket}`],
      ['--data-root', dataOf(this.directory)],
      ['--exec-root', join(this.directory, 'exec')],
      ['-p', join(this.directory, 'docker.pid')],
      ['--bip', `172.30.${this.#index}.1/24`],
      ['--exec-opt', 'native.cgroupdriver=cgroupfs'],
      ['--cgroup-parent', this.#traits.controlGroup],
      ['--containerd-namespace', this.#network.namespace],
      ['--containerd-plugins-namespace', `${this.#network.namespace}-plugins`],
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

  /** One that runs and has much to do is waited for: its end would be that of the containers. */
  async #isEngineThere(): Promise<boolean> {
    const isUp = () => isEngineUp(this.dockerSocket);
    if (!hostProcesses(this.#traits).some(({ isEngine, command }) => isEngine && /^\S*dockerd /.test(command)))
      return isUp();
    try {
      return await waitFor(isUp, { what: 'the engine', deadlineMs: 60_000, intervalMs: 100 });
    } catch {
      return false;
    }
  }

  /** The engine and all containers, at once, as if their machine had lost power; the host agent lives on. */
  async killEngine(): Promise<void> {
    await killHostProcesses(this.#traits, (one) => one.isEngine || one.isContainer);
    await this.#forgetRun();
  }

  /** Everything that runs, at once, and its network. Disks stay. `startEngine` is the first thing of its next boot. */
  async cutPower(): Promise<void> {
    // First: a kernel that is there says goodbye for every process that is killed, and one without power to nobody.
    await silenceHost(this.#network);
    await killHostProcesses(this.#traits, () => true);
    await this.#forgetRun();
    await cutHostNetwork(this.#network);
  }

  /** Of one that is off: images, containers and volumes are gone, as where the engine finds another disk. */
  async loseEngineData(): Promise<void> {
    await unmountBelow(this.directory);
    await rm(dataOf(this.directory), { recursive: true, force: true });
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

  /** This host's processes, containers' included, whose command line contains the text. */
  processes(text: string): HostProcess[] {
    return ownPrograms(hostProcesses(this.#traits)).filter(({ command }) => command.includes(text));
  }

  /** Their ids. */
  pids(text: string): number[] {
    return this.processes(text).map(({ pid }) => pid);
  }

  /** From this machine's engine, in a tenth of the time that building them takes. */
  copyImages(tags: readonly string[]): Promise<void> {
    return copyImages(this.dockerSocket, tags);
  }

  dropImages(kept: readonly string[]): Promise<void> {
    return dropImages(this.dockerSocket, kept);
  }

  /** Nothing comes in or goes out any more, not even from or to this machine. */
  unplug(): Promise<void> {
    return setLink(this.#network, 'down');
  }

  plug(): Promise<void> {
    return setLink(this.#network, 'up');
  }

  /** Its link from everywhere is slow, until it is called without a rate. */
  throttle(kilobitsPerSecond?: number): Promise<void> {
    return setRate(this.#network, kilobitsPerSecond);
  }

  /** Of a host that was created with a disk of its own: no byte is left for its engine. */
  fillDisk(): Promise<void> {
    return fillDisk(this.directory);
  }

  freeDisk(): Promise<void> {
    return freeDisk(this.directory);
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
