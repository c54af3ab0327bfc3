/** The body of a request on its way to a backend: as it comes, or collected before. */
import type { ClientConnection } from './client-connection.ts';
import type { Outbox } from './outbox.ts';
import { RequestBody } from './request-body.ts';
import type { Http1RequestHead } from './request-head.ts';
import { RequestWriter } from './request-writer.ts';

export class Upload {
  readonly #client: ClientConnection;
  readonly #body: RequestBody;
  readonly #writer = new RequestWriter();
  readonly #expectsContinue: boolean;
  #collected: Buffer[] | undefined;
  hasContinued = false;

  constructor(client: ClientConnection, head: Http1RequestHead) {
    this.#client = client;
    this.#body = new RequestBody(head.body);
    this.#expectsContinue = head.expectsContinue;
  }

  get isDone(): boolean {
    return this.#body.isDone;
  }

  get isBad(): boolean {
    return this.#body.isBad;
  }

  /** Of the content. */
  get bytes(): number {
    return this.#body.bytes;
  }

  /** How far the last `pass` went in the client's bytes. */
  get taken(): number {
    return this.#body.taken;
  }

  /** Nothing of what was passed is kept here, or waits to be written. */
  holdsNothing(outbox: Outbox): boolean {
    return this.#collected === undefined && outbox.length === 0;
  }

  /** The client that asked whether it may send its body does so. */
  invite(): void {
    if (!this.#expectsContinue || this.hasContinued) return;
    this.hasContinued = true;
    this.#client.outbox.write('HTTP/1.1 100 Continue\r\n\r\n');
  }

  /** Reads what belongs to the body; then it is collected, forwarded or dropped. Answers up to where it goes on as it is. */
  pass(buffer: Buffer, from: number, to: number): number {
    return this.#body.pass(buffer, from, to);
  }

  collect(buffer: Buffer, from: number, to: number): void {
    this.#collected ??= [];
    this.#collected.push(buffer.subarray(from, to));
    if (this.#body.tail !== '') this.#collected.push(Buffer.from(this.#body.tail, 'latin1'));
  }

  /** The head waits for the first of the body, to leave with it. */
  begin(outbox: Outbox, head: string): void {
    this.#writer.hold(head);
    this.invite();
    for (const piece of this.#collected ?? []) this.write(outbox, piece, 0, piece.length);
    this.#collected = undefined;
  }

  forward(outbox: Outbox, buffer: Buffer, from: number, to: number): void {
    if (to > from) this.write(outbox, buffer, from, to);
    if (this.#body.tail !== '') this.#writer.writeText(outbox, this.#body.tail);
  }

  write(outbox: Outbox, buffer: Buffer, from: number, to: number): void {
    this.#writer.write(outbox, buffer, from, to);
    if (outbox.isFull) this.#client.pause();
  }

  /** No more of the body is there for now. */
  flush(outbox: Outbox): void {
    if (this.#writer.isHolding) this.#writer.writeText(outbox, '');
  }
}
