/** What runs one etcd of a test: a local process, or a container of a given image. */
import { execFile, spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { testLabel } from '@flynn/kit/testing-label';

const run = promisify(execFile);

/** The data outlives `kill()`; `remove()` takes it away, unless its folder was the caller's. */
export interface EtcdRunner {
  start(): Promise<void>;
  kill(): Promise<void>;
  /** Stops it in its tracks: connections stay open, nothing answers. */
  freeze(): Promise<void>;
  thaw(): Promise<void>;
  remove(): Promise<void>;
}

export type RunnerOptions = {
  /** Default `etcd`, from the PATH. */
  binary?: string;
  /** Run a container of this image instead of a process; Docker has to be there. */
  image?: string;
  /** Of such a container, as the engine calls it; default: that of this machine. */
  network?: string;
  /** Kept after the end; default: a temporary one that is removed. */
  dataDir?: string;
};

/** Nothing runs yet. `readFolder`: one it reads files from. */
export async function createRunner(
  options: RunnerOptions,
  args: readonly string[],
  readFolder?: string,
): Promise<EtcdRunner> {
  const { image } = options;
  if (image !== undefined) return await createContainer({ ...options, image }, args, readFolder);
  const dataDir = options.dataDir ?? (await mkdtemp(path.join(tmpdir(), 'flynn-etcd-')));
  return new EtcdProcess(options.binary ?? 'etcd', dataDir, options.dataDir !== undefined, args);
}

class EtcdProcess implements EtcdRunner {
  readonly #binary: string;
  readonly #dataDir: string;
  readonly #isKept: boolean;
  readonly #args: readonly string[];
  #child: ChildProcess | undefined;

  constructor(binary: string, dataDir: string, isKept: boolean, args: readonly string[]) {
    this.#binary = binary;
    this.#dataDir = dataDir;
    this.#isKept = isKept;
    this.#args = args;
  }

  async start(): Promise<void> {
    const child = spawn(this.#binary, [...this.#args, `--data-dir=${this.#dataDir}`], { stdio: 'ignore' });
    try {
      await once(child, 'spawn');
    } catch (error) {
      throw new FlynnError('unavailable', `${this.#binary} could not be started: ${messageOf(error)}. Install etcd`, {
        cause: error,
      });
    }
    this.#child = child;
  }

  async kill(): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  }

  async freeze(): Promise<void> {
    this.#child?.kill('SIGSTOP');
  }

  async thaw(): Promise<void> {
    this.#child?.kill('SIGCONT');
  }

  async remove(): Promise<void> {
    await this.kill();
    if (!this.#isKept) await rm(this.#dataDir, { recursive: true, force: true });
  }
}

async function createContainer(
  { image, network = 'host', dataDir }: Omit<RunnerOptions, 'binary' | 'image'> & { image: string },
  args: readonly string[],
  readFolder: string | undefined,
): Promise<EtcdRunner> {
  const inside = '/member';
  const mounts = [
    dataDir === undefined ? `--volume=${inside}` : `--volume=${dataDir}:${inside}`,
    ...(readFolder === undefined ? [] : [`--volume=${readFolder}:${readFolder}:ro`]),
  ];
  const fixed = ['create', `--label=${testLabel}`, `--network=${network}`, '--entrypoint=etcd', ...mounts];
  const { stdout } = await docker(...fixed, image, ...args, `--data-dir=${inside}`);
  const id = stdout.trim();
  return {
    start: async () => void (await docker('start', id)),
    kill: async () => {
      try {
        await docker('kill', id);
      } catch (error) {
        // That it has ended is what counts.
        if (!messageOf(error).includes('is not running')) throw error;
      }
      await docker('wait', id);
    },
    freeze: async () => void (await docker('kill', '--signal=STOP', id)),
    thaw: async () => void (await docker('kill', '--signal=CONT', id)),
    remove: async () => void (await docker('rm', '--force', '--volumes', id)),
  };
}

/** Of the engine that such containers are in. */
export function docker(...args: readonly string[]): Promise<{ stdout: string; stderr: string }> {
  return run('docker', args, { timeout: 120_000 });
}
