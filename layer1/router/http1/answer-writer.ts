/** Writes an answer to a client: its head together with what follows, its body as it comes or in chunks made here. */
import { smallBytes } from './outbox.ts';
import type { Outbox } from './outbox.ts';

export class AnswerWriter {
  readonly #outbox: Outbox;
  readonly #copies: boolean;
  /** To be written with what comes next. */
  #head: string | undefined;
  /** The body gets chunks, because its end would else be the connection's. */
  #makesChunks = false;
  /** Of the body. */
  bytes = 0;

  /** `copies` leaves what is told in a buffer that is used again free at once: over TLS every write takes a turn of the loop. */
  constructor(outbox: Outbox, options: { copies: boolean }) {
    this.#outbox = outbox;
    this.#copies = options.copies;
  }

  /** Nothing of the answer has gone out yet. */
  get isHeld(): boolean {
    return this.#head !== undefined;
  }

  /** Nothing more is to be told until what was written is out. */
  get isFull(): boolean {
    return this.#copies ? this.#outbox.isFull : this.#outbox.isBehind;
  }

  begin(head: string, makesChunks: boolean): void {
    this.#head = head;
    this.#makesChunks = makesChunks;
  }

  forget(): void {
    this.#head = undefined;
  }

  /** In front of `from` are `room` bytes that can be written over. */
  write(buffer: Buffer, from: number, to: number, room: number): void {
    this.bytes += to - from;
    if (this.#makesChunks) this.#writeChunk(buffer, from, to);
    else if (this.#copies || to - from <= smallBytes) this.#writeCopy(buffer, from, to);
    else if (this.#head === undefined) this.#outbox.writeNow(buffer.subarray(from, to));
    else if (this.#head.length <= room) {
      const start = from - this.#head.length;
      buffer.write(this.#head, start, 'latin1');
      this.#head = undefined;
      this.#outbox.writeNow(buffer.subarray(start, to));
    } else {
      const head = this.#head;
      this.#head = undefined;
      this.#outbox.writeTogether(head, buffer.subarray(from, to));
    }
  }

  flush(): void {
    if (this.#head === undefined) return;
    this.#outbox.write(this.#head);
    this.#head = undefined;
  }

  /** The fields behind a body in chunks that came with them. */
  writeTail(text: string): void {
    this.flush();
    this.#outbox.write(text);
  }

  end(): void {
    this.flush();
    if (this.#makesChunks) this.#outbox.write('0\r\n\r\n');
  }

  #writeCopy(buffer: Buffer, from: number, to: number): void {
    const head = this.#head ?? '';
    this.#head = undefined;
    const out = Buffer.allocUnsafe(head.length + to - from);
    out.write(head, 'latin1');
    buffer.copy(out, head.length, from, to);
    this.#outbox.write(out);
  }

  #writeChunk(buffer: Buffer, from: number, to: number): void {
    const size = `${this.#head ?? ''}${(to - from).toString(16)}\r\n`;
    this.#head = undefined;
    const out = Buffer.allocUnsafe(size.length + to - from + 2);
    out.write(size, 'latin1');
    buffer.copy(out, size.length, from, to);
    out.write('\r\n', out.length - 2, 'latin1');
    this.#outbox.write(out);
  }
}
