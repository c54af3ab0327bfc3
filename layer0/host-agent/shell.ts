/**
 * A shell that stays, for what is run again and again: forking a process of the agent's size costs milliseconds, forking a
 * shell none.
 */
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { closeSync, existsSync, fstatSync, ftruncateSync, openSync, readSync, unlinkSync } from 'node:fs';
import { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { abortError } from '@flynn/kit/clock';
import { FlynnError } from '@flynn/kit/errors';
import { KeyedMutex } from '@flynn/kit/queue';
import { withDeadline } from '@flynn/kit/retry';

const usualDeadlineMs = 10_000;

type Running = {
  /** Takes a script, and keeps this process alive only while it runs one. */
  write(script: string): void;
  /** The exit code of what was written. */
  answer: PromiseWithResolvers<number>;
  hold(isHeld: boolean): void;
  kill(): void;
  output: MemoryFile;
  complaints: MemoryFile;
};

/**
 * INVARIANTS. One script at a time, in the order they were given, each in a shell of its own below the one that stays: what
 * it sets or breaks is gone with it. The shell is there from the first script on, again if it ended, and ends with this process.
 */
export class Shell {
  readonly #turns = new KeyedMutex();
  #running: Running | undefined;

  /** Answers its stdout. `internal` with what it said when it fails, `timeout` or `cancelled` after killing it. */
  run(script: string, options: { signal?: AbortSignal; deadlineMs?: number } = {}): Promise<string> {
    const { signal, deadlineMs = usualDeadlineMs } = options;
    return this.#turns.run('', () => this.#runNow(script, withDeadline(deadlineMs, signal)));
  }

  async #runNow(script: string, signal: AbortSignal): Promise<string> {
    if (signal.aborted) throw abortError(signal);
    this.#running ??= this.#start();
    const running = this.#running;
    running.output.clear();
    running.complaints.clear();
    running.answer = Promise.withResolvers<number>();
    const { promise } = running.answer;
    const cancel = () => {
      this.#running = undefined;
      running.kill();
      running.answer.reject(abortError(signal));
    };
    signal.addEventListener('abort', cancel, { once: true });
    running.hold(true);
    try {
      running.write(`(\n${script}\n) </dev/null >&3 2>&4; echo $?\n`);
      const code = await promise;
      if (code === 0) return running.output.read();
      const said = running.complaints.read().trim().split('\n').slice(0, 6).join('\n');
      throw new FlynnError('internal', `a script failed with ${code}: ${said}`);
    } finally {
      signal.removeEventListener('abort', cancel);
      running.hold(false);
    }
  }

  #start(): Running {
    // Files, for some programs write word by word: each word in a pipe would wake this process.
    const [output, complaints] = [new MemoryFile(), new MemoryFile()];
    const child = spawn('sh', ['-s'], {
      // A group of its own, so that what it started is killed with it.
      detached: true,
      stdio: ['pipe', 'pipe', 'ignore', output.fd, complaints.fd],
    });
    const { stdin, stdout } = child;
    if (stdin === null || stdout === null) throw new FlynnError('internal', 'the shell was started without pipes');
    const running: Running = {
      write: (script) => void stdin.write(script),
      answer: Promise.withResolvers<number>(),
      hold(isHeld) {
        for (const handle of [child, stdin, stdout]) {
          if (handle === child || handle instanceof Socket) handle[isHeld ? 'ref' : 'unref']();
        }
      },
      kill() {
        if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, 'SIGKILL');
      },
      output,
      complaints,
    };
    const end = (error: FlynnError) => {
      if (this.#running === running) this.#running = undefined;
      running.answer.reject(error);
    };
    stdout.on('data', (code: Buffer) => running.answer.resolve(Number(code.toString())));
    child.once('error', (error) => end(new FlynnError('internal', `there is no shell: ${error.message}`)));
    child.once('close', () => {
      end(new FlynnError('internal', 'the shell ended in the midst of a script'));
      output.close();
      complaints.close();
    });
    // It ended, which 'close' tells.
    stdin.on('error', () => undefined);
    return running;
  }
}

/** A file without a name, in memory where the machine has such a place: it works on a full disk, too. */
class MemoryFile {
  readonly fd: number;

  constructor() {
    const path = join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), `flynn-${randomUUID()}`);
    // Appending, so that it begins at the start again once it was cleared.
    this.fd = openSync(path, 'ax+', 0o600);
    unlinkSync(path);
  }

  clear(): void {
    ftruncateSync(this.fd, 0);
  }

  read(): string {
    const content = Buffer.allocUnsafeSlow(fstatSync(this.fd).size);
    const length = readSync(this.fd, content, 0, content.length, 0);
    return content.toString('utf8', 0, length);
  }

  close(): void {
    closeSync(this.fd);
  }
}

/** As one word for a shell, whatever is in it. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
