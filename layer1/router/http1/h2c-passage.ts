/** Carries a request to backends that speak HTTP/2, and the answer back: both bodies are framed anew. */
import type { Backend } from '../backend.ts';
import type { Fields, Problem } from '../exchange.ts';
import type { Extent, Failure, Receiver } from '../http2/attempt.ts';
import { Attempts } from '../http2/attempts.ts';
import type { ClientConnection } from './client-connection.ts';
import type { BodyState, Passage } from './passage.ts';
import { RequestBody } from './request-body.ts';
import type { Http1RequestHead } from './request-head.ts';
import type { Transfer } from './transfer.ts';
import { TranslatedAnswer } from './translated-answer.ts';
import { asHttp1, asHttp2 } from './translated-head.ts';

/**
 * INVARIANTS. Nothing of a body goes to a second backend. A body that ends before its length, or without the end of its
 * stream, is never told to the client as whole.
 */
export class H2cPassage implements Passage, Receiver {
  readonly #transfer: Transfer;
  readonly #client: ClientConnection;
  readonly #head: Http1RequestHead;
  readonly #body: RequestBody;
  readonly #attempts: Attempts;
  #hasContinued = false;
  #isBodySent = false;
  #collected: Buffer[] = [];
  #out: TranslatedAnswer | undefined;
  /** An upgrade would need one: the policy lets none through to such backends. */
  readonly isThrough = false;
  /** node:http2 does not tell what it still has. */
  readonly isThroughWithBytes = false;

  constructor(transfer: Transfer) {
    const { client, head, exchange } = transfer;
    this.#transfer = transfer;
    this.#client = client;
    this.#head = head;
    this.#body = new RequestBody(head.body);
    this.#attempts = new Attempts({ upstream: client.context.h2c, exchange, head: asHttp2(head), receiver: this });
  }

  get body(): BodyState {
    return this.#body;
  }

  get bytesOut(): number {
    return this.#out?.bytes ?? 0;
  }

  get isAnswerOut(): boolean {
    return this.#out !== undefined;
  }

  get isFramed(): boolean {
    return this.#out?.endsConnection !== true;
  }

  get problem(): Problem {
    return this.#attempts.problem;
  }

  invite(): void {
    if (!this.#head.expectsContinue || this.#hasContinued) return;
    this.#hasContinued = true;
    this.#client.outbox.write('HTTP/1.1 100 Continue\r\n\r\n');
  }

  takeBody(buffer: Buffer, from: number, to: number): number {
    const { phase } = this.#transfer;
    const isSending = phase === 'asked' || phase === 'answering';
    if (this.#body.isDone || (!isSending && phase !== 'collecting' && phase !== 'discarding')) return from;
    const taken = this.#body.take(buffer, from, to, (bytes) => {
      if (phase === 'collecting') this.#collected.push(bytes);
      else if (isSending) this.#give(bytes);
    });
    if (!this.#transfer.checkBody()) return to;
    if (isSending && this.#body.isDone) this.#attempts.attempt?.end(this.#body.trailers);
    this.#transfer.bodyTaken();
    return taken;
  }

  flush(): void {
    // What came was given on at once; node:http2 puts it together.
  }

  dial(backend: Backend): void {
    this.#attempts.begin(backend);
  }

  undialled(): void {
    this.#attempts.failed('dial', { connected: false, sentBody: this.#isBodySent });
  }

  late(): void {
    this.#attempts.late();
  }

  resume(): void {
    this.#attempts.attempt?.resume();
  }

  answered(): void {
    this.#attempts.letGo();
  }

  clientEnded(): void {
    // Of an upgraded connection, and here is none.
  }

  letGo(): void {
    this.#attempts.letGo();
  }

  onConnected(): void {
    this.#transfer.asked();
    this.invite();
    for (const bytes of this.#collected.splice(0)) this.#give(bytes);
    if (this.#body.isDone) this.#attempts.attempt?.end(this.#body.trailers);
    else this.#client.pump();
  }

  onInformation(status: number, fields: Fields): void {
    this.#transfer.touch();
    // A hint that the client does not take is left out.
    if (this.#head.protocol !== 'HTTP/1.1' || this.#client.outbox.isFull) return;
    this.#client.outbox.write(asHttp1(status, fields, [], ''));
  }

  onHead(status: number, fields: string[], extent: Extent): void {
    const { backend } = this.#attempts;
    if (backend === undefined) return;
    const added = this.#transfer.begin(backend, status, extent !== 'none');
    if (added === undefined) return;
    this.#out = new TranslatedAnswer(this.#client.outbox, this.#head, { status, fields, extent });
    if (this.#out.endsConnection) this.#transfer.keepsAlive = false;
    this.#out.begin(added, this.#client.connectionField(this.#head, this.#transfer.keepsAlive));
  }

  onUpgraded(): void {
    // The policy lets no upgrade through to such backends.
    this.onFailure('broke');
  }

  onData(bytes: Buffer): void {
    this.#transfer.touch();
    this.#out?.write(bytes);
    if (this.#client.socket.writableNeedDrain && this.#transfer.hold()) this.#attempts.attempt?.pause();
  }

  onEnd(trailers: Fields): void {
    this.#attempts.ended();
    this.#out?.end(trailers);
    this.#transfer.ended();
  }

  onDrain(): void {
    this.#transfer.touch();
    this.#client.resume();
  }

  onFailure(failure: Failure): void {
    const { phase } = this.#transfer;
    this.#attempts.ended();
    if (phase === 'answering') return this.#transfer.cut();
    if (this.#attempts.backend === undefined) return;
    const has = { connected: phase !== 'dialling', sentBody: this.#isBodySent };
    if (this.#attempts.failed(failure, has)) this.#transfer.pick();
    else this.#transfer.fail(this.#attempts.problem);
  }

  #give(bytes: Buffer): void {
    this.#isBodySent = true;
    if (this.#attempts.attempt?.write(bytes) === false) this.#client.pause();
  }
}
