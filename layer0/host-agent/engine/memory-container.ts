/** One container of the memory engine: its process, its output, its log. */
import { pause } from '@flynn/kit/clock';
import type { Clock } from '@flynn/kit/clock';
import { AsyncQueue } from '@flynn/kit/queue';
import type {
  Attachment,
  Container,
  ContainerSpec,
  Engine,
  EngineEvent,
  ExtraProcess,
  LogRecord,
  OutputChunk,
} from './engine.ts';
import { runScript } from './memory-shell.ts';

type Emit = (event: EngineEvent) => void;

export class MemoryContainer {
  readonly id: string;
  readonly spec: ContainerSpec;
  readonly log: LogRecord[] = [];
  readonly #emit: Emit;
  readonly #clock: Clock;
  readonly #followers = new Set<AsyncQueue<LogRecord>>();
  readonly #outputs = new Set<AsyncQueue<OutputChunk>>();
  readonly #createdAtMs: number;
  #process:
    | { kill: AbortController; input: AsyncQueue<Buffer>; ended: Promise<void>; ignoresTerm: boolean }
    | undefined;
  #input = new AsyncQueue<Buffer>();
  #run: { state: Container['state']; startedAtMs?: number; endedAtMs?: number; exitCode?: number } = {
    state: 'created',
  };
  #isOutOfMemory = false;
  #lastNs = 0n;
  #address: string;
  /** What it seems to have written to its files. */
  writtenBytes = 0;
  size: { columns: number; rows: number } | undefined;

  constructor(options: { id: string; spec: ContainerSpec; address: string; clock: Clock; emit: Emit }) {
    this.id = options.id;
    this.spec = options.spec;
    this.#address = options.address;
    this.#clock = options.clock;
    this.#emit = options.emit;
    this.#createdAtMs = options.clock.now();
  }

  view(): Container {
    const { name, labels, imageRef, tty, volumes } = this.spec;
    return {
      id: this.id,
      name,
      labels,
      imageId: imageRef,
      tty,
      volumes: volumes.map((volume) => volume.name),
      createdAtMs: this.#createdAtMs,
      isOutOfMemory: this.#isOutOfMemory,
      ...this.#run,
      ...(this.#run.state === 'running' ? { address: this.#address } : {}),
    };
  }

  get isRunning(): boolean {
    return this.#run.state === 'running';
  }

  start(): void {
    if (this.isRunning) return;
    const kill = new AbortController();
    const input = this.#input;
    this.#isOutOfMemory = false;
    this.#run = { state: 'running', startedAtMs: this.#clock.now() };
    const process = { kill, input, ended: Promise.resolve(), ignoresTerm: false };
    this.#process = process;
    process.ended = this.#execute(process);
    this.#emit({ type: 'started', containerId: this.id });
  }

  async #execute(process: { kill: AbortController; input: AsyncQueue<Buffer>; ignoresTerm: boolean }): Promise<void> {
    const script = [...(this.spec.entrypoint ?? []), ...(this.spec.command ?? [])].at(-1) ?? '';
    let exitCode = 137;
    try {
      exitCode = await runScript(script, {
        env: this.spec.env,
        clock: this.#clock,
        input: process.input,
        signal: process.kill.signal,
        write: (stream, text) => this.#write(stream, text),
        ignoreTerm: () => void (process.ignoresTerm = true),
        runOutOfMemory: () => {
          this.#isOutOfMemory = true;
          this.#emit({ type: 'out_of_memory', containerId: this.id });
        },
      });
    } catch (error) {
      if (!process.kill.signal.aborted) this.#write('stderr', `${String(error)}\n`);
    }
    const { reason } = process.kill.signal;
    this.#end(typeof reason === 'number' ? reason : exitCode);
  }

  #end(exitCode: number): void {
    this.#run = { ...this.#run, state: 'exited', exitCode, endedAtMs: this.#clock.now() };
    this.#process = undefined;
    this.#input = new AsyncQueue<Buffer>();
    for (const queue of [...this.#followers, ...this.#outputs]) queue.end();
    this.#followers.clear();
    this.#outputs.clear();
    this.#emit({ type: 'ended', containerId: this.id });
  }

  #write(stream: 'stdout' | 'stderr', text: string): void {
    for (const queue of this.#outputs) queue.push({ stream, data: Buffer.from(text) });
    const nowNs = BigInt(this.#clock.now()) * 1_000_000n;
    this.#lastNs = nowNs > this.#lastNs ? nowNs : this.#lastNs + 1n;
    for (const message of text.replace(/\n$/, '').split('\n')) {
      const record = { stream, timestampNs: this.#lastNs, message, isPartial: false };
      this.#lastNs += 1n;
      this.log.push(record);
      for (const queue of this.#followers) queue.push(record);
    }
  }

  follow(): AsyncQueue<LogRecord> {
    const queue = new AsyncQueue<LogRecord>();
    if (this.isRunning) this.#followers.add(queue);
    else queue.end();
    return queue;
  }

  /** TERM ends a process that does not ignore it; KILL any. */
  signal(name: string): void {
    if (name === 'SIGKILL') this.#process?.kill.abort(137);
    if (name === 'SIGTERM' && this.#process?.ignoresTerm === false) this.#process.kill.abort(143);
  }

  async stop(timeoutMs: number): Promise<void> {
    const process = this.#process;
    if (process === undefined) return;
    this.signal('SIGTERM');
    const giveUp = new AbortController();
    await Promise.race([process.ended, pause(timeoutMs, giveUp.signal, this.#clock)]);
    giveUp.abort();
    process.kill.abort(137);
    await process.ended;
  }

  exec({ command, env }: Parameters<Engine['exec']>[1]): ExtraProcess {
    const output = new AsyncQueue<OutputChunk>();
    const input = new AsyncQueue<Buffer>();
    const kill = new AbortController();
    // It ends with the container's own process.
    const { signal } = this.#process?.kill ?? kill;
    const run = async (): Promise<number> => {
      try {
        const code = await runScript(command.at(-1) ?? '', {
          env: { ...this.spec.env, ...env },
          clock: this.#clock,
          input,
          signal: AbortSignal.any([kill.signal, signal]),
          write: (stream, text) => output.push({ stream, data: Buffer.from(text) }),
          ignoreTerm: () => undefined,
          runOutOfMemory: () => undefined,
        });
        return kill.signal.aborted ? Number(kill.signal.reason) : code;
      } catch (error) {
        if (kill.signal.aborted) return Number(kill.signal.reason);
        if (signal.aborted) return 137;
        output.push({ stream: 'stderr', data: Buffer.from(`${String(error)}\n`) });
        return 127;
      } finally {
        output.end();
      }
    };
    const ended = run();
    const close = () => output.end();
    return {
      output,
      write: async (data) => input.push(Buffer.from(data)),
      endInput: () => input.end(),
      close,
      [Symbol.dispose]: close,
      exitCode: () => ended,
      resize: async (size) => void (this.size = size),
      signal: async (name) => {
        kill.abort(128 + (name === 'SIGKILL' ? 9 : name === 'SIGHUP' ? 1 : name === 'SIGINT' ? 2 : 15));
        input.end();
      },
    };
  }

  attach(withLogs: boolean): Attachment {
    const output = new AsyncQueue<OutputChunk>();
    if (withLogs) {
      for (const { stream, message } of this.log) output.push({ stream, data: Buffer.from(`${message}\n`) });
    }
    if (this.#run.state === 'exited') output.end();
    else this.#outputs.add(output);
    const input = this.#input;
    const close = () => {
      output.end();
      this.#outputs.delete(output);
    };
    return {
      output,
      write: async (data) => input.push(Buffer.from(data)),
      endInput: () => input.end(),
      close,
      [Symbol.dispose]: close,
    };
  }
}
