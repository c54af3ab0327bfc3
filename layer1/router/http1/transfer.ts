/** One request on its way: picks a backend, carries the request there and the answer back, and says how it ended. */
import { hasVanished } from '../backend.ts';
import type { Backend } from '../backend.ts';
import type { Answer, Ending, Exchange, Fields, Problem } from '../exchange.ts';
import { AnswerWriter } from './answer-writer.ts';
import type { AnswerReceiver } from './backend-connection.ts';
import type { ClientConnection, ClientTransfer } from './client-connection.ts';
import { Patience } from './patience.ts';
import type { Http1RequestHead } from './request-head.ts';
import type { Http1ResponseHead } from './response-head.ts';
import { frameFor, requestHeadFor, responseHeadFor } from './rewrite.ts';
import { Tries } from './tries.ts';
import { Upload } from './upload.ts';

type Phase =
  /** Of the body, before a backend is taken. */
  | 'collecting'
  | 'picking'
  | 'dialling'
  /** The backend has the request, or as much of it as the client has sent; its answer has not begun. */
  | 'asked'
  | 'answering'
  | 'tunnel'
  /** Answered; what the client still sends of the body is dropped. */
  | 'discarding'
  | 'over';

/** INVARIANTS. What was picked is released, once; the exchange is ended, once; then nothing is left of it but the client. */
export class Transfer implements AnswerReceiver, ClientTransfer {
  readonly takesChunks: boolean;
  readonly #client: ClientConnection;
  readonly #head: Http1RequestHead;
  readonly #exchange: Exchange;
  readonly #upload: Upload;
  readonly #tries: Tries;
  readonly #patience: Patience;
  readonly #out: AnswerWriter;
  #phase: Phase = 'picking';
  #isGone = false;
  #status = 0;
  #keepsAlive = false;
  /** A part of the backend's buffer is on its way to the client: it must not be read into. */
  #isFlushing = false;
  #hasEnded = false;
  /** The exchange has been told its end. */
  #isOver = false;

  constructor(client: ClientConnection, head: Http1RequestHead, exchange: Exchange) {
    const { pools, deadlines } = client.context;
    this.#client = client;
    this.#head = head;
    this.#exchange = exchange;
    this.#upload = new Upload(client, head);
    this.#tries = new Tries(exchange, pools, head);
    this.#patience = new Patience(deadlines, exchange.limits);
    this.#out = new AnswerWriter(client.socket, { copies: client.client.isTls });
    this.takesChunks = head.protocol === 'HTTP/1.1';
  }

  start(): void {
    const { bodyBytes, bufferBytes } = this.#exchange.limits;
    const { body } = this.#head;
    if (bodyBytes > 0 && typeof body === 'number' && body > bodyBytes) this.#fail('body-too-large');
    else if (bufferBytes > 0 && body !== 'none') {
      this.#phase = 'collecting';
      this.#touch();
      this.#upload.invite();
    } else this.#pick();
  }

  /** Takes of the client's bytes what belongs to this request, and answers up to where. */
  takeBody(buffer: Buffer, from: number, to: number): number {
    const upload = this.#upload;
    const socket = this.#phase === 'dialling' ? undefined : this.#tries.connection?.socket;
    if (this.#phase === 'tunnel') {
      if (socket !== undefined) upload.write(socket, buffer, from, to);
      return to;
    }
    const isTaking = socket !== undefined || this.#phase === 'collecting' || this.#phase === 'discarding';
    if (upload.isDone || !isTaking) return from;
    const until = upload.pass(buffer, from, to);
    if (upload.isBad) {
      this.#refuseBody();
      return to;
    }
    const { bodyBytes, bufferBytes } = this.#exchange.limits;
    if (bodyBytes > 0 && upload.bytes > bodyBytes && this.#phase !== 'discarding') {
      this.#fail('body-too-large');
      return to;
    }
    const { taken } = upload;
    this.#touch();
    if (this.#phase === 'discarding') {
      if (upload.isDone) this.#leave();
    } else if (this.#phase === 'collecting') {
      upload.collect(buffer, from, until);
      if (upload.isDone || upload.bytes >= bufferBytes) this.#pick();
    } else if (socket !== undefined) upload.forward(socket, buffer, from, until);
    return taken;
  }

  /** The client has no more for now. */
  flush(): void {
    const socket = this.#tries.connection?.socket;
    if (socket !== undefined) this.#upload.flush(socket);
  }

  /** None of the bytes that were taken is still needed. */
  get isThroughWithBytes(): boolean {
    const socket = this.#tries.connection?.socket;
    return socket !== undefined && this.#upload.holdsNothing(socket);
  }

  onConnected(): void {
    if (this.#phase === 'dialling') this.#send();
  }

  onInformation(head: Http1ResponseHead): void {
    this.#touch();
    if (!this.takesChunks || (head.status === 100 && this.#upload.hasContinued)) return;
    this.#client.socket.write(responseHeadFor(head, [], ''), 'latin1');
  }

  onHead(head: Http1ResponseHead): void {
    const { backend } = this.#tries;
    if (backend === undefined) return;
    const isUpgrade = head.status === 101;
    if (isUpgrade && this.#head.upgrade === undefined) return this.#broke('broke');
    const added = this.#exchange.answered(backend, head.status, head.framing !== 'none');
    if (isAnswer(added)) {
      this.#tries.letGo();
      this.#answer(added);
      return;
    }
    this.#status = head.status;
    this.#keepsAlive = this.#head.keepsAlive && !this.#client.context.isDraining && !isUpgrade;
    this.#phase = isUpgrade ? 'tunnel' : 'answering';
    this.#touch();
    const frame = frameFor(head, this.#head);
    if (frame === 'until-close') this.#keepsAlive = false;
    let lines = frame === 'chunks' || frame === 'new-chunks' ? 'transfer-encoding: chunked\r\n' : '';
    if (isUpgrade) lines = `connection: Upgrade\r\nupgrade: ${head.upgrade ?? this.#head.upgrade ?? ''}\r\n`;
    else lines += this.#client.connectionField(this.#head, this.#keepsAlive);
    this.#out.begin(responseHeadFor(head, added, lines), frame === 'new-chunks');
    if (isUpgrade) {
      this.#out.flush();
      this.#client.pump();
      if (this.#client.hasEnded) this.#tries.connection?.socket.end();
    }
  }

  onBytes(buffer: Buffer, from: number, to: number, room: number): void {
    this.#touch();
    this.#out.write(buffer, from, to, room);
    if (!this.#out.isFull || this.#isFlushing) return;
    // Some of it waits, and lies in a buffer that the next read would use.
    this.#isFlushing = true;
    this.#tries.connection?.socket.pause();
    this.#client.flushed();
  }

  /** All that was written to the client is out. */
  onFlushed(): void {
    if (!this.#isFlushing) return;
    this.#isFlushing = false;
    this.#touch();
    if (this.#hasEnded) this.#complete();
    else this.#tries.connection?.socket.resume();
  }

  onTail(text: string): void {
    this.#out.writeTail(text);
  }

  onPause(): void {
    this.#out.flush();
  }

  onEnd(): void {
    this.#out.end();
    this.#hasEnded = true;
    if (!this.#isFlushing) this.#complete();
  }

  onTunnelEnd(): void {
    this.#touch();
    this.#client.socket.end();
  }

  onDrain(): void {
    this.#touch();
    this.#client.resume();
  }

  onBroken(error: Error): void {
    switch (this.#phase) {
      case 'dialling':
        this.#undialled();
        break;
      case 'asked':
        this.#broke(hasVanished(error) ? 'vanished' : 'broke');
        break;
      case 'answering':
        // As long as nothing of it went out, there is still a better answer.
        if (this.#out.isHeld) this.#broke('broke');
        else this.#cut();
        break;
      case 'tunnel': {
        const isOrderly = this.#tries.connection?.socket.readableEnded === true;
        this.#tries.letGo();
        this.#end(isOrderly ? 'answered' : 'broken-off');
        this.#phase = 'over';
        if (isOrderly) this.#client.finished(false);
        else this.#client.breakOff(this.takesChunks);
        break;
      }
      case 'collecting':
      case 'picking':
      case 'discarding':
      case 'over':
        break;
    }
  }

  /** It has ended its side. */
  clientEnded(): void {
    if (this.#phase === 'tunnel') this.#tries.connection?.socket.end();
    else this.#patience.clientEnded();
  }

  clientGone(): void {
    if (this.#phase === 'over') return;
    if (this.#phase === 'picking') {
      this.#isGone = true;
      return;
    }
    const isTunnelThrough = this.#phase === 'tunnel' && this.#tries.connection?.socket.readableEnded === true;
    this.#tries.letGo();
    this.#end(isTunnelThrough ? 'answered' : 'client-gone');
    this.#phase = 'over';
  }

  tick(nowMs: number): void {
    switch (this.#patience.overAt(nowMs)) {
      case 'client':
        this.#client.socket.destroy();
        break;
      case 'total':
        this.#tooLate('too-late');
        break;
      case 'step':
        this.#onDeadline();
        break;
      case undefined:
        break;
    }
  }

  #onDeadline(): void {
    switch (this.#phase) {
      case 'dialling':
        this.#undialled();
        break;
      case 'collecting':
        this.#fail('client-slow');
        break;
      case 'asked': {
        const isClients = !this.#upload.isDone && !this.#client.isPaused;
        if (!isClients) this.#tries.late();
        this.#fail(isClients ? 'client-slow' : 'backend-late');
        break;
      }
      case 'answering':
      case 'tunnel':
        this.#cut();
        break;
      case 'discarding':
        this.#client.socket.destroy();
        break;
      case 'picking':
      case 'over':
        break;
    }
  }

  #tooLate(problem: Problem): void {
    if (this.#phase === 'answering' || this.#phase === 'tunnel') this.#cut();
    else if (this.#phase !== 'discarding' && this.#phase !== 'over' && this.#phase !== 'picking') this.#fail(problem);
  }

  #pick(): void {
    this.#phase = 'picking';
    this.#patience.hold();
    const picked = this.#exchange.pick();
    if (picked instanceof Promise) void this.#pickLater(picked);
    else this.#dial(picked);
  }

  async #pickLater(picked: Promise<Backend | undefined>): Promise<void> {
    this.#dial(await picked);
  }

  #dial(backend: Backend | undefined): void {
    if (this.#isGone) {
      if (backend !== undefined) this.#exchange.release(backend);
      this.#end('client-gone');
      this.#phase = 'over';
      return;
    }
    if (backend === undefined) return this.#fail(this.#tries.problem);
    this.#phase = 'dialling';
    this.#patience.dial();
    if (this.#tries.begin(backend, this)) this.#send();
  }

  #undialled(): void {
    this.#tries.undialled();
    this.#pick();
  }

  #send(): void {
    const { connection } = this.#tries;
    if (connection === undefined) return;
    this.#phase = 'asked';
    this.#touch();
    connection.expect({ isForHead: this.#head.method === 'HEAD' });
    const text = requestHeadFor(this.#head, this.#exchange);
    if (this.#head.body === 'none') {
      connection.socket.write(text, 'latin1');
      return;
    }
    this.#upload.begin(connection.socket, text);
    // What came of the body meanwhile goes with the head.
    this.#client.pump();
  }

  #complete(): void {
    const { isDone } = this.#upload;
    this.#tries.answered(isDone);
    this.#end('answered');
    if (isDone || !this.#keepsAlive) {
      this.#leave();
      return;
    }
    this.#phase = 'discarding';
    this.#client.resume();
    this.#client.pump();
  }

  #leave(): void {
    this.#phase = 'over';
    this.#client.finished(this.#keepsAlive);
  }

  #broke(how: 'broke' | 'vanished'): void {
    const mayRepeat = this.#tries.broke(how);
    if (this.#out.isHeld) {
      this.#out.forget();
      this.#status = 0;
    }
    if (mayRepeat) this.#pick();
    else this.#fail('backend-broke');
  }

  #refuseBody(): void {
    this.#tries.letGo();
    if (this.#status !== 0) return this.#cut();
    this.#answer(
      this.#client.context.policy.refuse(
        400,
        'bad-request',
        'The router refuses this request: a chunk of its body is broken.',
        this.#client.client,
      ),
    );
  }

  #fail(problem: Problem): void {
    this.#tries.letGo();
    if (this.#status !== 0 && !this.#out.isHeld) return this.#cut();
    this.#answer(this.#exchange.answerFor(problem));
  }

  #answer(answer: Answer): void {
    this.#status = answer.status;
    this.#out.bytes = Buffer.byteLength(answer.body);
    this.#keepsAlive = this.#head.keepsAlive && this.#upload.isDone && !this.#client.context.isDraining;
    this.#end('answered');
    this.#phase = 'over';
    this.#client.answer(answer, this.#head, this.#keepsAlive);
    this.#client.finished(this.#keepsAlive);
  }

  /** All that is left is to break off towards the client too. */
  #cut(): void {
    this.#tries.letGo();
    this.#end('broken-off');
    this.#phase = 'over';
    this.#client.breakOff(this.takesChunks);
  }

  #end(how: Ending['how']): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#exchange.end({ status: this.#status, bytesIn: this.#upload.bytes, bytesOut: this.#out.bytes, how });
  }

  #touch(): void {
    this.#patience.touch(this.#phase === 'asked' && this.#upload.isDone ? 'answer' : 'byte');
  }
}

function isAnswer(added: Fields | Answer): added is Answer {
  return 'status' in added;
}
