/** Carries a request to backends that speak HTTP/1, and the answer back: bodies go through as they are. */
import { hasVanished } from '../backend.ts';
import type { Backend } from '../backend.ts';
import type { Problem } from '../exchange.ts';
import { AnswerWriter } from './answer-writer.ts';
import type { AnswerReceiver } from './backend-connection.ts';
import type { ClientConnection } from './client-connection.ts';
import type { BodyState, Passage } from './passage.ts';
import type { Http1RequestHead } from './request-head.ts';
import type { Http1ResponseHead } from './response-head.ts';
import { frameFor, requestHeadFor, responseHeadFor } from './rewrite.ts';
import type { Transfer } from './transfer.ts';
import { Tries } from './tries.ts';
import { Upload } from './upload.ts';

export class Http1Passage implements Passage, AnswerReceiver {
  readonly takesChunks: boolean;
  isFramed = true;
  readonly #transfer: Transfer;
  readonly #client: ClientConnection;
  readonly #head: Http1RequestHead;
  readonly #upload: Upload;
  readonly #tries: Tries;
  readonly #out: AnswerWriter;

  constructor(transfer: Transfer) {
    const { client, head, exchange } = transfer;
    this.#transfer = transfer;
    this.#client = client;
    this.#head = head;
    this.#upload = new Upload(client, head);
    this.#tries = new Tries(exchange, client.context.pools, head);
    this.#out = new AnswerWriter(client.outbox, { copies: client.client.isTls });
    this.takesChunks = head.protocol === 'HTTP/1.1';
  }

  get body(): BodyState {
    return this.#upload;
  }

  get bytesOut(): number {
    return this.#out.bytes;
  }

  get isAnswerOut(): boolean {
    return !this.#out.isHeld;
  }

  get isThrough(): boolean {
    return this.#transfer.phase === 'tunnel' && this.#tries.connection?.socket.readableEnded === true;
  }

  get problem(): Problem {
    return this.#tries.problem;
  }

  get isThroughWithBytes(): boolean {
    const outbox = this.#tries.connection?.outbox;
    return outbox !== undefined && this.#upload.holdsNothing(outbox);
  }

  invite(): void {
    this.#upload.invite();
  }

  takeBody(buffer: Buffer, from: number, to: number): number {
    const transfer = this.#transfer;
    const upload = this.#upload;
    const { phase } = transfer;
    const outbox = phase === 'dialling' ? undefined : this.#tries.connection?.outbox;
    if (phase === 'tunnel') {
      if (outbox !== undefined) upload.write(outbox, buffer, from, to);
      return to;
    }
    const isTaking = outbox !== undefined || phase === 'collecting' || phase === 'discarding';
    if (upload.isDone || !isTaking) return from;
    const until = upload.pass(buffer, from, to);
    if (!transfer.checkBody()) return to;
    const { taken } = upload;
    if (phase === 'collecting') upload.collect(buffer, from, until);
    else if (phase !== 'discarding' && outbox !== undefined) upload.forward(outbox, buffer, from, until);
    transfer.bodyTaken();
    return taken;
  }

  flush(): void {
    const outbox = this.#tries.connection?.outbox;
    if (outbox !== undefined) this.#upload.flush(outbox);
  }

  dial(backend: Backend): void {
    if (this.#tries.begin(backend, this)) this.#send();
  }

  undialled(): void {
    this.#tries.undialled();
  }

  late(): void {
    this.#tries.late();
  }

  resume(): void {
    this.#tries.connection?.socket.resume();
  }

  answered(): void {
    this.#tries.answered(this.#upload.isDone);
  }

  clientEnded(): void {
    this.#tries.connection?.outbox.end();
  }

  letGo(): void {
    this.#tries.letGo();
  }

  onConnected(): void {
    if (this.#transfer.phase === 'dialling') this.#send();
  }

  onInformation(head: Http1ResponseHead): void {
    this.#transfer.touch();
    if (!this.takesChunks || (head.status === 100 && this.#upload.hasContinued)) return;
    // A hint that the client does not take is left out.
    if (this.#client.outbox.isFull) return;
    this.#client.outbox.write(responseHeadFor(head, [], ''));
  }

  onHead(head: Http1ResponseHead): void {
    const transfer = this.#transfer;
    const { backend } = this.#tries;
    if (backend === undefined) return;
    const isUpgrade = head.status === 101;
    if (isUpgrade && this.#head.upgrade === undefined) return this.#broke('broke');
    const added = transfer.begin(backend, head.status, head.framing !== 'none');
    if (added === undefined) return;
    const frame = frameFor(head, this.#head);
    if (isUpgrade) transfer.phase = 'tunnel';
    this.isFramed = frame !== 'until-close';
    if (isUpgrade || !this.isFramed) transfer.keepsAlive = false;
    let lines = frame === 'chunks' || frame === 'new-chunks' ? 'transfer-encoding: chunked\r\n' : '';
    if (isUpgrade) lines = `connection: Upgrade\r\nupgrade: ${head.upgrade ?? this.#head.upgrade ?? ''}\r\n`;
    else lines += this.#client.connectionField(this.#head, transfer.keepsAlive);
    this.#out.begin(responseHeadFor(head, added, lines), frame === 'new-chunks');
    if (isUpgrade) {
      this.#out.flush();
      this.#client.pump();
      if (this.#client.hasEnded) this.clientEnded();
    }
  }

  onBytes(buffer: Buffer, from: number, to: number, room: number): void {
    this.#transfer.touch();
    this.#out.write(buffer, from, to, room);
    // Some of it waits, and lies in a buffer that the next read would use.
    if (this.#out.isFull && this.#transfer.hold()) this.#tries.connection?.socket.pause();
  }

  onTail(text: string): void {
    this.#out.writeTail(text);
  }

  onPause(): void {
    this.#out.flush();
  }

  onEnd(): void {
    this.#out.end();
    this.#transfer.ended();
  }

  onTunnelEnd(): void {
    this.#transfer.touch();
    this.#client.outbox.end();
  }

  onDrain(): void {
    this.#transfer.touch();
    this.#client.resume();
  }

  onBroken(error: Error): void {
    switch (this.#transfer.phase) {
      case 'dialling':
        this.#tries.undialled();
        this.#transfer.pick();
        break;
      case 'asked':
        this.#broke(hasVanished(error) ? 'vanished' : 'broke');
        break;
      case 'answering':
        // As long as nothing of it went out, there is still a better answer.
        if (this.#out.isHeld) this.#broke('broke');
        else this.#transfer.cut();
        break;
      case 'tunnel':
        if (this.isThrough) this.#transfer.through();
        else this.#transfer.cut();
        break;
      case 'collecting':
      case 'picking':
      case 'discarding':
      case 'over':
        break;
    }
  }

  #send(): void {
    const { connection } = this.#tries;
    if (connection === undefined) return;
    this.#transfer.asked();
    connection.expect({ isForHead: this.#head.method === 'HEAD' });
    const text = requestHeadFor(this.#head, this.#transfer.exchange);
    if (this.#head.body === 'none') {
      connection.outbox.write(text);
      return;
    }
    this.#upload.begin(connection.outbox, text);
    // What came of the body meanwhile goes with the head.
    this.#client.pump();
  }

  #broke(how: 'broke' | 'vanished'): void {
    const mayRepeat = this.#tries.broke(how);
    if (this.#out.isHeld) {
      this.#out.forget();
      this.#transfer.takeBack();
    }
    if (mayRepeat) this.#transfer.pick();
    else this.#transfer.fail('backend-broke');
  }
}
