/** The body of one request on its way from the client's stream: collected, or given to a backend as it comes. */
import type { ServerHttp2Stream } from 'node:http2';
import type { Fields } from '../exchange.ts';
import type { Attempt } from './attempt.ts';
import { Block, alone, smallBytes } from './block.ts';
import type { Collected } from './collected.ts';
import { trailerFields } from './fields.ts';
import type { Http2Head } from './request.ts';

export interface BodyReceiver {
  onBody(bytes: Buffer): void;
  /** All of it was told. Not called for a stream that broke off. */
  onBodyEnd(): void;
}

/** What an upgraded connection sends is its body too. */
export class RequestBody {
  readonly #stream: ServerHttp2Stream;
  readonly #head: Http2Head;
  readonly #receiver: BodyReceiver;
  readonly #ofSession: Collected;
  #collected: Buffer[] = [];
  /** What came last of it, in small pieces. */
  #small = new Block();
  /** Counted for the session until a backend has taken them. */
  #collectedBytes = 0;
  /** Of all that was told. */
  bytes = 0;
  trailers: Fields = [];
  isReading = false;
  /** All of it is here. */
  isRead = false;
  /** Some of it went to a backend. */
  isSent = false;
  /** The backend does not take more. */
  isHeldUp = false;

  constructor(options: { stream: ServerHttp2Stream; head: Http2Head; receiver: BodyReceiver; collected: Collected }) {
    this.#stream = options.stream;
    this.#head = options.head;
    this.#receiver = options.receiver;
    this.#ofSession = options.collected;
  }

  /** Once, first. */
  open(): void {
    if (this.#head.body === 'none' && this.#head.upgrade === undefined) {
      this.isRead = true;
      // Not if it was whole with its head: node:http2 sees to that, at less cost.
      if (!this.#stream.endAfterHeaders) this.#stream.resume();
      return;
    }
    // They are told when they come, whether the body before them has been read or not.
    this.#stream.on('trailers', (_fields: object, _flags: number, raw: string[]) => {
      this.trailers = trailerFields(raw);
    });
  }

  /** From now on it is told as it comes; once more, after a pause. */
  read(): void {
    if (this.isReading) {
      if (!this.isHeldUp) this.#stream.resume();
      return;
    }
    this.isReading = true;
    this.#stream.on('data', (bytes: Buffer) => {
      this.bytes += bytes.length;
      this.#receiver.onBody(bytes);
    });
    this.#stream.on('end', () => {
      // Of a stream that is broken off, too, the readable side ends.
      if (this.#stream.aborted || this.#stream.destroyed) return;
      this.isRead = true;
      this.#receiver.onBodyEnd();
    });
  }

  /** Of an attempt that has ended meanwhile nothing is held up. */
  give(bytes: Buffer, attempt: Attempt | undefined): void {
    this.isSent = true;
    if (attempt?.write(bytes) !== false) return;
    this.isHeldUp = true;
    this.#stream.pause();
  }

  /** The backend takes more. */
  goOn(): void {
    this.isHeldUp = false;
    this.#uncount();
    if (this.isReading) this.#stream.resume();
  }

  /** Answers whether that is enough. */
  collect(bytes: Buffer, limitBytes: number): boolean {
    if (bytes.length >= smallBytes || !this.#small.hasRoom(bytes)) this.#endBlock();
    if (bytes.length >= smallBytes) this.#collected.push(alone(bytes));
    else this.#small.add(bytes);
    this.#collectedBytes += bytes.length;
    this.#ofSession.add(bytes.length);
    return this.#collectedBytes >= limitBytes || this.#ofSession.isMuch(this.#collectedBytes);
  }

  giveCollected(attempt: Attempt | undefined): void {
    this.#endBlock();
    for (const bytes of this.#collected.splice(0)) this.give(bytes, attempt);
    if (!this.isHeldUp) this.#uncount();
  }

  dropCollected(): void {
    this.#collected = [];
    this.#small = new Block();
    this.#uncount();
  }

  #endBlock(): void {
    const { bytes } = this.#small;
    if (bytes === undefined) return;
    this.#collected.push(bytes);
    this.#small = new Block();
  }

  #uncount(): void {
    this.#ofSession.add(-this.#collectedBytes);
    this.#collectedBytes = 0;
  }
}
