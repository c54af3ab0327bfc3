/** Lines to a pipe that several processes share, and whose reader may be slow or stand still: nobody waits for it. */
import { closeSync, constants, fstatSync, openSync, writeSync } from 'node:fs';
import { FlynnError, hasErrno } from './errors.ts';

/** PIPE_BUF: what is no longer is written whole or not at all, and no two writers' bytes are mixed. */
export const wholeBytes = 4_096;
const maxWaitingBytes = 8_388_608;
const retryMs = 20;
const exitMs = 2_000;
const newline = 0x0a;

/**
 * INVARIANTS. A write never waits. Lines are written in their order, each whole where it has at most 4,096 bytes. When the reader
 * is slower than lines come, 8 MB are kept; what comes then is counted, and told of once there is room. A process that exits
 * gives its reader two seconds for what is kept.
 */
export class PipeLines {
  readonly #fd: number;
  readonly #lostLine: (lost: number) => string;
  #waiting: Buffer[] = [];
  #bytes = 0;
  #lost = 0;
  #timer: NodeJS.Timeout | undefined;
  #listeners: (() => void)[] = [];

  private constructor(fd: number, lostLine: (lost: number) => string) {
    this.#fd = fd;
    this.#lostLine = lostLine;
    process.once('exit', this.#onExit);
  }

  /** Undefined if the descriptor is no pipe, or nobody may open it again. `lostLine`: what tells of lines that were not kept. */
  static open(fd: number, lostLine: (lost: number) => string): PipeLines | undefined {
    if (!fstatSync(fd).isFIFO()) return undefined;
    try {
      // A description of its own: that it does not wait is not so for others who have this pipe.
      return new PipeLines(openSync(`/proc/self/fd/${fd}`, constants.O_WRONLY | constants.O_NONBLOCK), lostLine);
    } catch (error) {
      if (hasErrno(error, 'EACCES', 'ENOENT', 'ENXIO', 'EPERM')) return undefined;
      throw new FlynnError('internal', `the output cannot be opened again: ${String(error)}`, { cause: error });
    }
  }

  /** Whole lines with their ends. False: some wait, until `drain`. */
  write(text: string): boolean {
    if (this.#bytes >= maxWaitingBytes) {
      this.#lost += 1;
      return false;
    }
    this.#add(Buffer.from(text));
    if (this.#timer === undefined) this.#flush();
    return this.#bytes === 0;
  }

  once(_event: 'drain', listener: () => void): void {
    this.#listeners.push(listener);
  }

  close(): void {
    process.off('exit', this.#onExit);
    clearTimeout(this.#timer);
    closeSync(this.#fd);
  }

  #add(bytes: Buffer): void {
    this.#bytes += bytes.length;
    for (let at = 0; at < bytes.length;) {
      const last = bytes.lastIndexOf(newline, at + wholeBytes - 1);
      const end = bytes.indexOf(newline, at) + 1;
      const next = last >= at ? last + 1 : end === 0 ? bytes.length : end;
      this.#waiting.push(bytes.subarray(at, next));
      at = next;
    }
  }

  readonly #onExit = (): void => {
    const sleeping = new Int32Array(new SharedArrayBuffer(4));
    for (const startMs = performance.now(); this.#waiting.length > 0 && performance.now() - startMs < exitMs;) {
      clearTimeout(this.#timer);
      this.#flush();
      if (this.#waiting.length > 0) Atomics.wait(sleeping, 0, 0, retryMs);
    }
  };

  #flush(): void {
    let done = 0;
    try {
      for (; done < this.#waiting.length; done += 1) {
        for (let chunk = this.#waiting[done]; chunk !== undefined && chunk.length > 0;) {
          const written = writeSync(this.#fd, chunk);
          chunk = chunk.subarray(written);
          this.#waiting[done] = chunk;
          this.#bytes -= written;
        }
      }
    } catch (error) {
      if (hasErrno(error, 'EAGAIN')) {
        this.#waiting.splice(0, done);
        this.#timer = setTimeout(() => {
          this.#timer = undefined;
          this.#flush();
        }, retryMs).unref();
        return;
      }
      // Nobody is there to read any more.
      this.#bytes = 0;
    }
    this.#waiting = [];
    if (this.#lost > 0) {
      const line = this.#lostLine(this.#lost);
      this.#lost = 0;
      if (!this.write(line)) return;
    }
    const listeners = this.#listeners;
    this.#listeners = [];
    for (const listener of listeners) listener();
  }
}
