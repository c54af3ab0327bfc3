/** One request on its way: picks a backend, carries the request there and the answer back, and says how it ended. */
import { hasVanished } from '../backend.ts';
import type { Backend } from '../backend.ts';
import type { Answer, Ending, Exchange, Fields, Problem } from '../exchange.ts';
import { AnswerWriter } from './answer-writer.ts';
import type { AnswerReceiver, BackendConnection } from './backend-connection.ts';
import type { ClientConnection, ClientTransfer } from './client-connection.ts';
import type { Deadlines } from './deadlines.ts';
import type { Pools } from './pool.ts';
import { RequestBody } from './request-body.ts';
import type { Http1RequestHead } from './request-head.ts';
import { RequestWriter } from './request-writer.ts';
import type { Http1ResponseHead } from './response-head.ts';
import { requestHeadFor, responseHeadFor } from './rewrite.ts';

/** A client that has ended its side may still be there for the answer; most are not. */
const graceMs = 1_000;

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
  readonly #pools: Pools;
  readonly #deadlines: Deadlines;
  readonly #head: Http1RequestHead;
  readonly #exchange: Exchange;
  readonly #body: RequestBody;
  readonly #isRepeatable: boolean;
  readonly #totalEndMs: number;
  #phase: Phase = 'picking';
  #backend: Backend | undefined;
  #connection: BackendConnection | undefined;
  #problem: Problem = 'no-backends';
  #hasRepeated = false;
  /** Where a host has vanished others may have too: a dial tells that sooner than a connection that was kept. */
  #wantsNew = false;
  #hasContinued = false;
  #collected: Buffer[] | undefined;
  #deadlineMs = Infinity;
  #goneAtMs = Infinity;
  #isGone = false;
  readonly #request = new RequestWriter();
  readonly #out: AnswerWriter;
  #status = 0;
  #keepsAlive = false;
  /** A part of the backend's buffer is on its way to the client: it must not be read into. */
  #isFlushing = false;
  #hasEnded = false;
  /** The exchange has been told its end. */
  #isOver = false;

  constructor(client: ClientConnection, head: Http1RequestHead, exchange: Exchange) {
    this.#client = client;
    this.#out = new AnswerWriter(client.socket, { copies: client.client.isTls });
    this.#pools = client.context.pools;
    this.#deadlines = client.context.deadlines;
    this.#head = head;
    this.#exchange = exchange;
    this.#body = new RequestBody(head.body);
    this.takesChunks = head.protocol === 'HTTP/1.1';
    this.#isRepeatable = head.body === 'none' && (head.method === 'GET' || head.method === 'HEAD');
    const { totalMs } = exchange.limits;
    this.#totalEndMs = totalMs > 0 ? this.#deadlines.after(totalMs) : Infinity;
  }

  start(): void {
    const { bodyBytes, bufferBytes } = this.#exchange.limits;
    const { body } = this.#head;
    if (bodyBytes > 0 && typeof body === 'number' && body > bodyBytes) this.#fail('body-too-large');
    else if (bufferBytes > 0 && body !== 'none') {
      this.#phase = 'collecting';
      this.#collected = [];
      this.#touch();
      this.#continue();
    } else this.#pick();
  }

  /** Takes of the client's bytes what belongs to this request, and answers up to where. */
  takeBody(buffer: Buffer, from: number, to: number): number {
    if (this.#phase === 'tunnel') {
      this.#forward(buffer, from, to);
      return to;
    }
    const isTaking = this.#connection !== undefined && this.#phase !== 'dialling';
    if (this.#body.isDone || !(isTaking || this.#phase === 'collecting' || this.#phase === 'discarding')) return from;
    const until = this.#body.pass(buffer, from, to);
    const { taken, tail, isBad, bytes } = this.#body;
    if (isBad) {
      this.#refuseBody();
      return to;
    }
    const { bodyBytes, bufferBytes } = this.#exchange.limits;
    if (bodyBytes > 0 && bytes > bodyBytes && this.#phase !== 'discarding') {
      this.#fail('body-too-large');
      return to;
    }
    this.#touch();
    if (this.#phase === 'discarding') {
      if (this.#body.isDone) this.#leave();
      return taken;
    }
    if (this.#phase === 'collecting') {
      this.#collected?.push(buffer.subarray(from, until));
      if (tail !== '') this.#collected?.push(Buffer.from(tail, 'latin1'));
      if (this.#body.isDone || bytes >= bufferBytes) this.#pick();
      return taken;
    }
    if (until > from) this.#forward(buffer, from, until);
    if (tail !== '') this.#forwardText(tail);
    return taken;
  }

  /** The client has no more for now. */
  flush(): void {
    if (this.#request.isHolding) this.#forwardText('');
  }

  onConnected(): void {
    if (this.#phase === 'dialling') this.#send();
  }

  onInformation(head: Http1ResponseHead): void {
    this.#touch();
    if (!this.takesChunks || (head.status === 100 && this.#hasContinued)) return;
    this.#client.socket.write(responseHeadFor(head, [], ''), 'latin1');
  }

  onHead(head: Http1ResponseHead): void {
    const backend = this.#backend;
    if (backend === undefined) return;
    const isUpgrade = head.status === 101;
    if (isUpgrade && this.#head.upgrade === undefined) return this.#broke('broke');
    const added = this.#exchange.answered(backend, head.status, head.framing !== 'none');
    if (isAnswer(added)) {
      this.#letGo();
      this.#answer(added);
      return;
    }
    this.#status = head.status;
    this.#keepsAlive = this.#head.keepsAlive && !this.#client.context.isDraining && !isUpgrade;
    this.#phase = isUpgrade ? 'tunnel' : 'answering';
    this.#touch();
    let framing = '';
    let makesChunks = false;
    if (isUpgrade) framing = `connection: Upgrade\r\nupgrade: ${head.upgrade ?? this.#head.upgrade ?? ''}\r\n`;
    else {
      const isFramed = this.#head.method === 'HEAD' || head.framing === 'none' || head.framing === 'length';
      if (!isFramed && this.takesChunks) {
        framing = 'transfer-encoding: chunked\r\n';
        makesChunks = head.framing === 'until-close';
      } else if (!isFramed) this.#keepsAlive = false;
      framing += this.#client.connectionField(this.#head, this.#keepsAlive);
    }
    this.#out.begin(responseHeadFor(head, added, framing), makesChunks);
    if (isUpgrade) {
      this.#out.flush();
      this.#client.pump();
      if (this.#client.hasEnded) this.#connection?.socket.end();
    }
  }

  onBytes(buffer: Buffer, from: number, to: number, room: number): void {
    this.#touch();
    this.#out.write(buffer, from, to, room);
    if (!this.#out.isFull || this.#isFlushing) return;
    // Some of it waits, and lies in a buffer that the next read would use.
    this.#isFlushing = true;
    this.#connection?.socket.pause();
    this.#client.flushed();
  }

  /** All that was written to the client is out. */
  onFlushed(): void {
    if (!this.#isFlushing) return;
    this.#isFlushing = false;
    this.#touch();
    if (this.#hasEnded) this.#complete();
    else this.#connection?.socket.resume();
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
        const isOrderly = this.#connection?.socket.readableEnded === true;
        this.#letGo();
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
    if (this.#phase === 'tunnel') this.#connection?.socket.end();
    else this.#goneAtMs = this.#deadlines.after(graceMs);
  }

  clientGone(): void {
    if (this.#phase === 'over') return;
    if (this.#phase === 'picking') {
      this.#isGone = true;
      return;
    }
    const isTunnelThrough = this.#phase === 'tunnel' && this.#connection?.socket.readableEnded === true;
    this.#letGo();
    this.#end(isTunnelThrough ? 'answered' : 'client-gone');
    this.#phase = 'over';
  }

  tick(nowMs: number): void {
    if (nowMs > this.#goneAtMs) this.#client.socket.destroy();
    else if (nowMs > this.#totalEndMs) this.#tooLate('too-late');
    else if (nowMs > this.#deadlineMs) this.#onDeadline();
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
        const isClients = !this.#body.isDone && !this.#client.isPaused;
        if (!isClients && this.#backend !== undefined) this.#exchange.failed(this.#backend, 'late');
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
    this.#deadlineMs = Infinity;
    const picked = this.#exchange.pick();
    if (picked instanceof Promise) void this.#pickLater(picked);
    else this.#dial(picked);
  }

  async #pickLater(picked: Promise<Backend | undefined>): Promise<void> {
    this.#dial(await picked);
  }

  #dial(backend: Backend | undefined): void {
    this.#backend = backend;
    if (this.#isGone) {
      this.#letGo();
      this.#end('client-gone');
      this.#phase = 'over';
      return;
    }
    if (backend === undefined) return this.#fail(this.#problem);
    this.#phase = 'dialling';
    this.#deadlineMs = this.#deadlines.after(this.#exchange.limits.dialMs);
    if (this.#head.upgrade !== undefined || this.#wantsNew) {
      this.#connection = this.#pools.open(backend, this);
      return;
    }
    const { connection, isNew } = this.#pools.take(backend, this, this.#isRepeatable);
    this.#connection = connection;
    if (!isNew) this.#send();
  }

  #undialled(): void {
    if (this.#backend !== undefined) this.#exchange.failed(this.#backend, 'dial');
    this.#problem = 'unreachable';
    this.#letGo();
    this.#pick();
  }

  #send(): void {
    const connection = this.#connection;
    if (connection === undefined) return;
    this.#phase = 'asked';
    this.#touch();
    connection.expect({ isForHead: this.#head.method === 'HEAD' });
    const text = requestHeadFor(this.#head, this.#exchange);
    if (this.#head.body === 'none') {
      connection.socket.write(text, 'latin1');
      return;
    }
    this.#request.hold(text);
    this.#continue();
    if (this.#collected !== undefined) {
      for (const piece of this.#collected) this.#forward(piece, 0, piece.length);
      this.#collected = undefined;
    }
    // What came of the body meanwhile goes with the head.
    this.#client.pump();
  }

  #continue(): void {
    if (!this.#head.expectsContinue || this.#hasContinued) return;
    this.#hasContinued = true;
    this.#client.socket.write('HTTP/1.1 100 Continue\r\n\r\n', 'latin1');
  }

  #forward(buffer: Buffer, from: number, to: number): void {
    const socket = this.#connection?.socket;
    if (socket === undefined) return;
    this.#request.write(socket, buffer, from, to);
    if (socket.writableNeedDrain) this.#client.pause();
  }

  #forwardText(text: string): void {
    const socket = this.#connection?.socket;
    if (socket !== undefined) this.#request.writeText(socket, text);
  }

  #complete(): void {
    const connection = this.#connection;
    const backend = this.#backend;
    this.#connection = undefined;
    this.#backend = undefined;
    if (backend !== undefined) this.#exchange.release(backend);
    if (connection !== undefined) {
      connection.socket.resume();
      // What an app did not want to read stands between its answer and the client's next request.
      if (this.#body.isDone) this.#pools.give(connection);
      else connection.destroy();
    }
    this.#end('answered');
    if (this.#body.isDone || !this.#keepsAlive) {
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
    const hasAnswered = this.#connection?.hasAnswered === true;
    if (this.#backend !== undefined) this.#exchange.failed(this.#backend, how);
    if (this.#out.isHeld) {
      this.#out.forget();
      this.#status = 0;
    }
    this.#problem = 'backend-broke';
    if (hasAnswered || !this.#isRepeatable || (how === 'broke' && this.#hasRepeated))
      return this.#fail('backend-broke');
    if (how === 'broke') this.#hasRepeated = true;
    else this.#wantsNew = true;
    this.#letGo();
    this.#pick();
  }

  #refuseBody(): void {
    this.#letGo();
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
    this.#letGo();
    if (this.#status !== 0 && !this.#out.isHeld) return this.#cut();
    this.#answer(this.#exchange.answerFor(problem));
  }

  #answer(answer: Answer): void {
    this.#status = answer.status;
    this.#out.bytes = Buffer.byteLength(answer.body);
    this.#keepsAlive = this.#head.keepsAlive && this.#body.isDone && !this.#client.context.isDraining;
    this.#end('answered');
    this.#phase = 'over';
    this.#client.answer(answer, this.#head, this.#keepsAlive);
    this.#client.finished(this.#keepsAlive);
  }

  /** All that is left is to break off towards the client too. */
  #cut(): void {
    this.#letGo();
    this.#end('broken-off');
    this.#phase = 'over';
    this.#client.breakOff(this.takesChunks);
  }

  #letGo(): void {
    this.#connection?.destroy();
    this.#connection = undefined;
    if (this.#backend !== undefined) this.#exchange.release(this.#backend);
    this.#backend = undefined;
  }

  #end(how: Ending['how']): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#exchange.end({ status: this.#status, bytesIn: this.#body.bytes, bytesOut: this.#out.bytes, how });
  }

  #touch(): void {
    const { firstByteMs, idleMs } = this.#exchange.limits;
    const isWaiting = this.#phase === 'asked' && this.#body.isDone;
    this.#deadlineMs = this.#deadlines.after(isWaiting ? firstByteMs : idleMs);
    if (this.#goneAtMs !== Infinity) this.#goneAtMs = this.#deadlines.after(graceMs);
  }
}

function isAnswer(added: Fields | Answer): added is Answer {
  return 'status' in added;
}
