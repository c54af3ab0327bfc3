/** The command line in the same process, on streams and a home directory of its own. For tests. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, Writable } from 'node:stream';
import { type Clock, systemClock } from '@flynn/kit/clock';
import { startTestController, type TestController, type TestControllerOptions } from '@flynn/controller/testing';
import { saveClusters } from './clusters/clusters.ts';
import type { Io } from './io.ts';
import { runCli } from './program.ts';

export class Capture extends Writable {
  isTTY = false;
  columns = 100;
  rows = 40;
  readonly #chunks: Buffer[] = [];

  get bytes(): Buffer {
    return Buffer.concat(this.#chunks);
  }

  get text(): string {
    return this.bytes.toString();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.#chunks.push(chunk);
    done();
  }
}

export class Typed extends PassThrough {
  isTTY = false;
  isRaw = false;

  setRawMode(isRaw: boolean): this {
    this.isRaw = isRaw;
    return this;
  }
}

type Signal = Parameters<Io['onSignal']>[0];

export class TestIo implements Io {
  readonly stdin = new Typed();
  readonly stdout = new Capture();
  readonly stderr = new Capture();
  readonly #listeners = new Map<Signal, Set<() => void>>();
  readonly env: Record<string, string | undefined>;
  readonly cwd: string;
  readonly clock: Clock;

  constructor(options: { env?: Record<string, string | undefined>; cwd?: string; clock?: Clock } = {}) {
    this.env = options.env ?? {};
    this.cwd = options.cwd ?? tmpdir();
    this.clock = options.clock ?? systemClock;
  }

  onSignal(signal: Signal, listener: () => void): () => void {
    const listeners = this.#listeners.get(signal) ?? new Set();
    this.#listeners.set(signal, listeners.add(listener));
    return () => listeners.delete(listener);
  }

  endWithReader(): void {}

  /** As the system would; answers how many heard it. */
  signal(signal: Signal): number {
    const listeners = [...(this.#listeners.get(signal) ?? [])];
    for (const listener of listeners) listener();
    return listeners.length;
  }
}

export type Ran = { code: number; stdout: string; stderr: string };

export type CliOptions = { env?: Record<string, string>; cwd?: string; input?: string; clock?: Clock };

/** One on which a wait is over as soon as it begins. */
export function quickClock(): Clock {
  let nowMs = Date.now();
  return {
    now: () => nowMs,
    async sleep(ms) {
      nowMs += ms;
    },
  };
}

/** A person's machine: a home, a configuration, a place to work. */
export class Desk implements AsyncDisposable {
  readonly home: string;

  private constructor(home: string) {
    this.home = home;
  }

  static async open(): Promise<Desk> {
    return new Desk(await mkdtemp(join(tmpdir(), 'flynn-cli-')));
  }

  get configDirectory(): string {
    return join(this.home, 'config');
  }

  io(options: CliOptions = {}): TestIo {
    const { env = {}, cwd = this.home, clock = systemClock } = options;
    const own = { HOME: this.home, FLYNN_CONFIG_DIR: this.configDirectory, GIT_CONFIG_NOSYSTEM: '1' };
    return new TestIo({ env: { PATH: process.env['PATH'], ...own, ...env }, cwd, clock });
  }

  async run(argv: readonly string[], options: CliOptions = {}): Promise<Ran> {
    const io = this.io(options);
    io.stdin.end(options.input ?? '');
    const code = await runCli(argv, io);
    return { code, stdout: io.stdout.text, stderr: io.stderr.text };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.home, { recursive: true, force: true });
  }
}

/** A desk that knows the cluster of a controller of its own. */
export async function openDeskWithController(
  options: TestControllerOptions = {},
): Promise<AsyncDisposable & { desk: Desk; controller: TestController }> {
  const controller = await startTestController(options);
  const desk = await Desk.open();
  await saveClusters(desk.configDirectory, {
    default: 'test',
    clusters: [
      {
        name: 'test',
        controllerUrl: controller.url,
        key: controller.userKey,
        gitUrl: 'ssh://git@flynn.localhost:2222',
        domain: 'flynn.localhost',
        httpPort: 80,
      },
    ],
  });
  return {
    desk,
    controller,
    async [Symbol.asyncDispose]() {
      await desk[Symbol.asyncDispose]();
      await controller[Symbol.asyncDispose]();
    },
  };
}
