/** One request of an HTTP/1 client to backends that speak HTTP/2: the same as `transfer.ts`, but both sides are framed anew. */
import type { Backend } from '../backend.ts';
import type { Answer, Ending, Exchange, Fields, Problem } from '../exchange.ts';
import type { Attempt, Extent, Failure, Receiver, Upstream } from '../http2/attempt.ts';
import type { Http2Head } from '../http2/request.ts';
import type { ClientConnection, ClientTransfer } from './client-connection.ts';
import type { Deadlines } from './deadlines.ts';
import type { Http1RequestHead } from './request-head.ts';
import { RequestPayload } from './request-payload.ts';
import { TranslatedAnswer } from './translated-answer.ts';
import { asHttp1, asHttp2 } from './translated-head.ts';

/** A client that has ended its side may still be there for the answer; most are not. */
const graceMs = 1_000;

type Phase =
  | 'collecting'
  | 'picking'
  | 'dialling'
  | 'asked'
  | 'answering'
  /** Answered; what the client still sends of the body is dropped. */
  | 'discarding'
  | 'over';

/**
 * INVARIANTS. What was picked is released, once; the exchange is ended, once. Nothing of a body goes to a second backend.
 * A body that ends before its length, or without the end of its stream, is never told to the client as whole.
 */
export class H2cTransfer implements Receiver, ClientTransfer {
  readonly #client: ClientConnection;
  readonly #deadlines: Deadlines;
  readonly #upstream: Upstream;
  readonly #head: Http1RequestHead;
  readonly #asked: Http2Head;
  readonly #exchange: Exchange;
  readonly #body: RequestPayload;
  readonly #isRepeatable: boolean;
  readonly #totalEndMs: number;
  #phase: Phase = 'picking';
  #backend: Backend | undefined;
  #attempt: Attempt | undefined;
  #problem: Problem = 'no-backends';
  #hasRepeated = false;
  #hasContinued = false;
  #isBodySent = false;
  #collected: Buffer[] = [];
  #deadlineMs = Infinity;
  #goneAtMs = Infinity;
  #isGone = false;
  #status = 0;
  /** Of an answer of the router's own. */
  #ownBytes = 0;
  #keepsAlive = false;
  #out: TranslatedAnswer | undefined;
  /** The client has not taken all that was written yet. */
  #isFlushing = false;
  #hasEnded = false;
  #isOver = false;

  constructor(client: ClientConnection, head: Http1RequestHead, exchange: Exchange) {
    this.#client = client;
    this.#deadlines = client.context.deadlines;
    this.#upstream = client.context.h2c;
    this.#head = head;
    this.#asked = asHttp2(head);
    this.#exchange = exchange;
    this.#body = new RequestPayload(head.body);
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
      this.#touch();
      this.#continue();
    } else this.#pick();
  }

  takeBody(buffer: Buffer, from: number, to: number): number {
    const phase = this.#phase;
    const isTaking = phase === 'collecting' || phase === 'discarding' || phase === 'asked' || phase === 'answering';
    if (this.#body.isDone || !isTaking) return from;
    const taken = this.#body.take(buffer, from, to, (bytes) => {
      if (phase === 'collecting') this.#collected.push(bytes);
      else if (phase !== 'discarding') this.#give(bytes);
    });
    const { isBad, isDone, bytes } = this.#body;
    const { bodyBytes, bufferBytes } = this.#exchange.limits;
    if (isBad) {
      this.#refuseBody();
      return to;
    }
    if (bodyBytes > 0 && bytes > bodyBytes && phase !== 'discarding') {
      this.#fail('body-too-large');
      return to;
    }
    this.#touch();
    if (phase === 'discarding') {
      if (isDone) this.#leave();
    } else if (phase === 'collecting') {
      if (isDone || bytes >= bufferBytes) this.#pick();
    } else if (isDone) this.#attempt?.end(this.#body.trailers);
    return taken;
  }

  flush(): void {
    // What came was given on at once; node:http2 puts it together.
  }

  onConnected(): void {
    this.#phase = 'asked';
    this.#touch();
    this.#continue();
    for (const bytes of this.#collected.splice(0)) this.#give(bytes);
    if (this.#body.isDone) this.#attempt?.end(this.#body.trailers);
    else this.#client.pump();
  }

  onInformation(status: number, fields: Fields): void {
    this.#touch();
    if (this.#head.protocol === 'HTTP/1.1') this.#client.socket.write(asHttp1(status, fields, [], ''), 'latin1');
  }

  onHead(status: number, fields: string[], extent: Extent): void {
    const backend = this.#backend;
    if (backend === undefined) return;
    const added = this.#exchange.answered(backend, status, extent !== 'none');
    if ('status' in added) {
      this.#letGo();
      this.#answer(added);
      return;
    }
    this.#status = status;
    this.#keepsAlive = this.#head.keepsAlive && !this.#client.context.isDraining;
    this.#phase = 'answering';
    this.#touch();
    this.#out = new TranslatedAnswer(this.#client.socket, this.#head, { status, fields, extent });
    if (this.#out.endsConnection) this.#keepsAlive = false;
    this.#out.begin(added, this.#client.connectionField(this.#head, this.#keepsAlive));
  }

  onUpgraded(): void {
    // The policy lets no upgrade through to such backends.
    this.onFailure('broke');
  }

  onData(bytes: Buffer): void {
    this.#touch();
    this.#out?.write(bytes);
    if (!this.#client.socket.writableNeedDrain || this.#isFlushing) return;
    this.#isFlushing = true;
    this.#attempt?.pause();
    this.#client.flushed();
  }

  onFlushed(): void {
    if (!this.#isFlushing) return;
    this.#isFlushing = false;
    this.#touch();
    if (this.#hasEnded) this.#complete();
    else this.#attempt?.resume();
  }

  onEnd(trailers: Fields): void {
    this.#attempt = undefined;
    this.#out?.end(trailers);
    this.#hasEnded = true;
    if (!this.#isFlushing) this.#complete();
  }

  onDrain(): void {
    this.#touch();
    this.#client.resume();
  }

  onFailure(failure: Failure): void {
    const backend = this.#backend;
    this.#attempt = undefined;
    if (this.#phase === 'answering') return this.#cut();
    if (backend === undefined) return;
    const isDial = this.#phase === 'dialling';
    this.#exchange.failed(backend, failure === 'refused' ? 'broke' : failure);
    this.#problem = isDial ? 'unreachable' : 'backend-broke';
    const isUntouched = (isDial || failure === 'refused') && !this.#isBodySent;
    const mayRepeat = this.#isRepeatable && (failure === 'vanished' || !this.#hasRepeated);
    if (!isUntouched && !mayRepeat) return this.#fail('backend-broke');
    if (!isUntouched && failure !== 'vanished') this.#hasRepeated = true;
    this.#letGo();
    this.#pick();
  }

  clientEnded(): void {
    this.#goneAtMs = this.#deadlines.after(graceMs);
  }

  clientGone(): void {
    if (this.#phase === 'over') return;
    if (this.#phase === 'picking') this.#isGone = true;
    else this.#leaveWithClient();
  }

  tick(nowMs: number): void {
    if (nowMs > this.#goneAtMs) this.#client.socket.destroy();
    else if (nowMs > this.#totalEndMs) this.#onLate('too-late');
    else if (nowMs > this.#deadlineMs) this.#onLate(this.#phase === 'asked' ? 'backend-late' : 'client-slow');
  }

  #onLate(problem: Problem): void {
    switch (this.#phase) {
      case 'dialling':
        if (problem === 'too-late') this.#fail(problem);
        else {
          this.#attempt?.abort();
          this.onFailure('dial');
        }
        break;
      case 'asked': {
        const isClients = !this.#body.isDone && !this.#client.isPaused;
        if (problem === 'backend-late' && !isClients && this.#backend !== undefined) {
          this.#exchange.failed(this.#backend, 'late');
        }
        this.#fail(problem === 'backend-late' && isClients ? 'client-slow' : problem);
        break;
      }
      case 'collecting':
        this.#fail(problem);
        break;
      case 'answering':
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

  #pick(): void {
    this.#phase = 'picking';
    this.#deadlineMs = Infinity;
    const picked = this.#exchange.pick();
    if (picked instanceof Promise) void picked.then((backend) => this.#dial(backend));
    else this.#dial(picked);
  }

  #dial(backend: Backend | undefined): void {
    this.#backend = backend;
    if (this.#isGone) return this.#leaveWithClient();
    if (backend === undefined) return this.#fail(this.#problem);
    this.#phase = 'dialling';
    this.#deadlineMs = this.#deadlines.after(this.#exchange.limits.dialMs);
    const request = { head: this.#asked, exchange: this.#exchange, canRepeat: this.#isRepeatable, wantsNew: false };
    this.#attempt = this.#upstream.open(backend, request, this);
    this.#attempt.begin();
  }

  #continue(): void {
    if (!this.#head.expectsContinue || this.#hasContinued) return;
    this.#hasContinued = true;
    this.#client.socket.write('HTTP/1.1 100 Continue\r\n\r\n', 'latin1');
  }

  #give(bytes: Buffer): void {
    this.#isBodySent = true;
    if (this.#attempt?.write(bytes) === false) this.#client.pause();
  }

  #complete(): void {
    this.#letGo();
    this.#end('answered');
    if (this.#body.isDone || !this.#keepsAlive) {
      this.#leave();
      return;
    }
    this.#phase = 'discarding';
    this.#client.resume();
    this.#client.pump();
  }

  #leaveWithClient(): void {
    this.#letGo();
    this.#end('client-gone');
    this.#phase = 'over';
  }

  #leave(): void {
    this.#phase = 'over';
    this.#client.finished(this.#keepsAlive);
  }

  #refuseBody(): void {
    if (this.#status !== 0) return this.#cut();
    this.#letGo();
    const message = 'The router refuses this request: a chunk of its body is broken.';
    this.#answer(this.#client.context.policy.refuse(400, 'bad-request', message, this.#client.client));
  }

  #fail(problem: Problem): void {
    this.#letGo();
    if (this.#status !== 0) return this.#cut();
    this.#answer(this.#exchange.answerFor(problem));
  }

  #answer(answer: Answer): void {
    this.#status = answer.status;
    this.#ownBytes = Buffer.byteLength(answer.body);
    this.#keepsAlive = this.#head.keepsAlive && this.#body.isDone && !this.#client.context.isDraining;
    this.#end('answered');
    this.#phase = 'over';
    this.#client.answer(answer, this.#head, this.#keepsAlive);
    this.#client.finished(this.#keepsAlive);
  }

  #cut(): void {
    this.#letGo();
    this.#end('broken-off');
    this.#phase = 'over';
    this.#client.breakOff(this.#out?.endsConnection !== true);
  }

  #letGo(): void {
    const attempt = this.#attempt;
    this.#attempt = undefined;
    attempt?.abort();
    if (this.#backend !== undefined) this.#exchange.release(this.#backend);
    this.#backend = undefined;
  }

  #end(how: Ending['how']): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const bytesOut = this.#out?.bytes ?? this.#ownBytes;
    this.#exchange.end({ status: this.#status, bytesIn: this.#body.bytes, bytesOut, how });
  }

  #touch(): void {
    const { firstByteMs, idleMs } = this.#exchange.limits;
    const isWaiting = this.#phase === 'asked' && this.#body.isDone;
    this.#deadlineMs = this.#deadlines.after(isWaiting ? firstByteMs : idleMs);
    if (this.#goneAtMs !== Infinity) this.#goneAtMs = this.#deadlines.after(graceMs);
  }
}
