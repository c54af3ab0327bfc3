/** For tests: the log of a datastore, as its own programs collect it, copy what there is, and bring it to a moment. */
import type { Duplex } from 'node:stream';
import { encodeFrame, readFrames } from '@flynn/kit/frames';

export type Recovered = Readonly<{ at: string; roomBytes: number; input: Buffer }>;

export class TestHistory {
  readonly #now: () => number;
  system = 'a';
  timeline = 1;
  /** The log is so long. */
  lsn = 32 * 1024 ** 2;
  /** By its clock. */
  nowMs: number | undefined;
  /** Whatever was collected is behind it, and something is missing. */
  gap: string | undefined;
  /** Each for one run: what it says, and no more. */
  readonly failures: string[] = [];
  /** What is in a copy. */
  content = Buffer.from('all there is');
  readonly runs: string[] = [];
  readonly recovered: Recovered[] = [];

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Of its files. */
  dataBytes = 30_000_000;
  /** Something is written. */
  write(bytes = 1_000): void {
    this.lsn += bytes;
  }

  async run(command: readonly string[], socket: Duplex): Promise<void> {
    const [program = '', ...rest] = command;
    const [task = '', ...words] = program.endsWith('-recover') ? ['recover', ...rest] : rest;
    this.runs.push([task, ...words].join(' '));
    const says = this.failures.shift();
    if (says !== undefined) {
      socket.write(encodeFrame({ kind: 'stderr', data: Buffer.from(says) }));
      end(socket, 1);
    } else if (task === 'recover') await this.#recover(words, socket);
    else {
      const chunks = task === 'base' ? this.#base() : this.#collect(words);
      for (const data of chunks) socket.write(encodeFrame({ kind: 'stdout', data }));
      end(socket, 0);
    }
  }

  #base(): Buffer[] {
    return [Buffer.from(`${JSON.stringify({ bytes: this.dataBytes })}\n`), this.content];
  }

  #collect([system, , lsn]: readonly string[]): Buffer[] {
    const at = this.nowMs ?? this.#now();
    const found = { system: this.system, timeline: this.timeline, at, until: at - 2_000, data: this.dataBytes };
    const say = (more: object) => Buffer.from(`${JSON.stringify({ ...found, ...more })}\n`);
    if (lsn === undefined) return [say({ from: this.lsn, to: this.lsn })];
    const gap = system === this.system ? this.gap : 'its data were made anew';
    this.gap = undefined;
    if (gap !== undefined) return [say({ gap })];
    const from = Number(lsn);
    return from === this.lsn
      ? [say({ from, to: from })]
      : [say({ from, to: this.lsn }), Buffer.from(`[${from} ${this.timeline}/${this.lsn}]`)];
  }

  async #recover([at = '', roomBytes = '']: readonly string[], socket: Duplex): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const frame of readFrames(socket)) {
      if (frame.kind === 'stdin') chunks.push(frame.data);
      if (frame.kind !== 'stdin-end') continue;
      this.recovered.push({ at, roomBytes: Number(roomBytes), input: Buffer.concat(chunks) });
      socket.end(encodeFrame({ kind: 'exit', code: 0 }));
    }
  }
}

function end(socket: Duplex, code: number): void {
  // What nobody reads keeps a connection from closing.
  socket.resume();
  socket.end(encodeFrame({ kind: 'exit', code }));
}
