/** One request of an HTTP/2 client: from its head through one backend or another to the end of its answer. */
import { constants } from 'node:http2';
import type { ServerHttp2Stream } from 'node:http2';
import type { Backend } from '../backend.ts';
import type { Exchange, Fields, Problem } from '../exchange.ts';
import type { Deadlines, Watched } from '../http1/deadlines.ts';
import { closeWhenSent, sendAnswer, sendHead } from './answer.ts';
import type { Extent, Failure, Receiver, Upstream } from './attempt.ts';
import { Attempts } from './attempts.ts';
import type { Collected } from './collected.ts';
import { endWithTrailers } from './ending.ts';
import { listBytes, objectOf } from './fields.ts';
import type { Http2Head } from './request.ts';
import { RequestBody } from './request-body.ts';
import type { BodyReceiver } from './request-body.ts';
import type { Unsent, UnsentOfStream } from './unsent.ts';

/** Of preliminary answers: more are left out. */
const informedBytes = 65_536;
/** Of one that says no more than its status. */
const statusBytes = 32;

type Phase =
  /** Its body is collected before a backend is taken. */
  | 'collecting'
  | 'picking'
  | 'dialling'
  /** The backend has the request, or is getting it. */
  | 'asking'
  | 'answering'
  /** All has been said, perhaps not yet heard. */
  | 'over';

/**
 * INVARIANTS. The exchange ends once, when the stream is closed, and every picked backend is released once. Nothing of
 * a body is given to a second backend: it is tried only while no byte of the body has gone to one before.
 */
export class Transfer implements Receiver, BodyReceiver, Watched {
  readonly #stream: ServerHttp2Stream;
  readonly #head: Http2Head;
  readonly #exchange: Exchange;
  readonly #deadlines: Deadlines;
  readonly #onOver: () => void;
  /** The whole is to be over by then. */
  readonly #lastMs: number;
  #phase: Phase = 'picking';
  readonly #attempts: Attempts;
  #deadlineMs = Infinity;
  #isUpgraded = false;
  #isOpenEnded = false;
  readonly #body: RequestBody;
  #isClientFull = false;
  readonly #ofSession: Unsent;
  readonly #unsent: UnsentOfStream;
  #status = 0;
  #bytesOut = 0;
  #isBrokenOff = false;
  #informedBytes = 0;

  constructor(options: {
    stream: ServerHttp2Stream;
    head: Http2Head;
    exchange: Exchange;
    upstream: Upstream;
    deadlines: Deadlines;
    collected: Collected;
    unsent: Unsent;
    onOver: () => void;
  }) {
    this.#stream = options.stream;
    this.#head = options.head;
    this.#exchange = options.exchange;
    this.#deadlines = options.deadlines;
    this.#onOver = options.onOver;
    const { upstream, exchange, head, stream, collected } = options;
    this.#ofSession = options.unsent;
    this.#unsent = options.unsent.watch(stream);
    this.#body = new RequestBody({ stream, head, receiver: this, collected });
    this.#attempts = new Attempts({ upstream, exchange, head, receiver: this });
    const { totalMs } = options.exchange.limits;
    this.#lastMs = totalMs > 0 ? options.deadlines.after(totalMs) : Infinity;
  }

  start(): void {
    const { limits } = this.#exchange;
    const stream = this.#stream;
    this.#deadlines.add(this);
    stream.on('close', () => this.#onClose());
    this.#body.open();
    if (typeof this.#head.body === 'number' && limits.bodyBytes > 0 && this.#head.body > limits.bodyBytes) {
      this.#answer('body-too-large');
    } else if (limits.bufferBytes > 0 && !this.#body.isRead && this.#head.upgrade === undefined) {
      this.#phase = 'collecting';
      this.#arm(limits.idleMs);
      this.#sayContinue();
      this.#body.read();
    } else this.#pick();
  }

  /** Looks whether something takes too long. */
  tick(nowMs: number): void {
    if (nowMs > this.#lastMs && this.#phase !== 'over') {
      this.#deadlineMs = Infinity;
      if (this.#phase === 'answering') this.#breakOff();
      else this.#answer('too-late');
    }
    if (nowMs < this.#deadlineMs) return;
    this.#deadlineMs = Infinity;
    switch (this.#phase) {
      case 'collecting':
        this.#answer('client-slow');
        break;
      case 'dialling':
        this.onFailure('dial');
        break;
      case 'asking': {
        const isClientSlow =
          !this.#body.isRead && !this.#body.isHeldUp && !this.#isUpgraded && this.#head.upgrade === undefined;
        if (!isClientSlow) this.#attempts.late();
        this.#answer(isClientSlow ? 'client-slow' : 'backend-late');
        break;
      }
      case 'answering':
      case 'over':
        this.#breakOff();
        break;
      case 'picking':
    }
  }

  onConnected(): void {
    this.#phase = 'asking';
    this.#armForAnswer();
    if (this.#head.upgrade !== undefined) return;
    this.#sayContinue();
    this.#body.giveCollected(this.#attempts.attempt);
    if (this.#body.isRead) this.#attempts.attempt?.end(this.#body.trailers);
    else this.#body.read();
  }

  onInformation(status: number, fields: Fields): void {
    if (this.#phase === 'asking') this.#armForAnswer();
    if (this.#stream.destroyed || this.#stream.closed || this.#stream.headersSent) return;
    // Fields are not held up by a window: of a client that does not read they would lie here.
    this.#informedBytes += statusBytes + listBytes(fields);
    if (this.#informedBytes > informedBytes) return;
    try {
      this.#stream.additionalHeaders({ ':status': status, ...objectOf(fields) });
    } catch {
      // A hint that may not be passed on is left out.
    }
  }

  onHead(status: number, fields: string[], extent: Extent): void {
    const { backend } = this.#attempts;
    if (backend === undefined) return;
    const added = this.#exchange.answered(backend, status, extent !== 'none');
    if ('status' in added) {
      this.#attempts.letGo();
      this.#send(added);
      return;
    }
    this.#status = status;
    this.#phase = 'answering';
    this.#arm(this.#exchange.limits.idleMs);
    if (this.#stream.destroyed || this.#stream.closed) return;
    const isBodyless = this.#head.method === 'HEAD' || status === 204 || status === 304;
    const said = isBodyless ? 'none' : extent;
    this.#isOpenEnded = said === 'open';
    if (!sendHead(this.#stream, { status, fields, added, extent: said })) {
      // It has what HTTP/2 may not say.
      this.#phase = 'asking';
      this.#answer('backend-broke');
    }
  }

  onUpgraded(fields: string[]): void {
    if (this.#attempts.backend === undefined) return;
    this.#isUpgraded = true;
    this.onHead(
      200,
      fields.filter((_, i) => fields[i - (i % 2)] !== 'sec-websocket-accept'),
      'open',
    );
    if (this.#phase === 'answering') this.#body.read();
  }

  onData(bytes: Buffer): void {
    this.#bytesOut += bytes.length;
    this.#arm(this.#exchange.limits.idleMs);
    if (!this.#stream.writable) return;
    // As it was when they were given, too: bytes may be lent, and nothing may be read in their place before they are out.
    const wasCrowded = this.isCrowded;
    const hasRoom = this.#stream.write(bytes, this.#onSent);
    this.#unsent.count();
    if (hasRoom && !wasCrowded && !this.isCrowded) return;
    this.#attempts.attempt?.pause();
    this.#isClientFull = true;
  }

  get isCrowded(): boolean {
    return this.#ofSession.isMuch;
  }

  onEnd(trailers: Fields): void {
    this.#attempts.ended();
    this.#attempts.letGo();
    this.#phase = 'over';
    if (this.#stream.destroyed) return;
    if (this.#isOpenEnded) {
      endWithTrailers(this.#stream, trailers, () => closeWhenSent(this.#stream));
      return;
    }
    this.#stream.end();
    closeWhenSent(this.#stream);
  }

  onDrain(): void {
    this.#arm(this.#exchange.limits.idleMs);
    this.#body.goOn();
  }

  onFailure(failure: Failure): void {
    if (this.#phase === 'answering') return this.#breakOff();
    if (this.#attempts.backend === undefined) return;
    const has = { connected: this.#phase !== 'dialling', sentBody: this.#body.isSent };
    if (this.#attempts.failed(failure, has)) this.#pick();
    else this.#answer(this.#attempts.problem);
  }

  onBody(bytes: Buffer): void {
    const { limits } = this.#exchange;
    if (limits.bodyBytes > 0 && this.#body.bytes > limits.bodyBytes && !this.#isUpgraded) {
      if (this.#phase === 'answering') this.#breakOff();
      else if (this.#phase !== 'over') this.#answer('body-too-large');
      return;
    }
    if (this.#phase === 'over') return;
    this.#arm(limits.idleMs);
    if (this.#phase === 'asking' || this.#phase === 'answering') {
      this.#body.give(bytes, this.#attempts.attempt);
      return;
    }
    const isEnough = this.#body.collect(bytes, limits.bufferBytes);
    if (this.#phase !== 'collecting' || !isEnough) return;
    this.#stream.pause();
    this.#pick();
  }

  onBodyEnd(): void {
    if (this.#phase === 'collecting') this.#pick();
    else if (this.#phase === 'asking') {
      this.#arm(this.#exchange.limits.firstByteMs);
      this.#attempts.attempt?.end(this.#body.trailers);
    } else if (this.#phase === 'answering') this.#attempts.attempt?.end(this.#body.trailers);
  }

  #pick(): void {
    this.#phase = 'picking';
    this.#deadlineMs = Infinity;
    const picked = this.#exchange.pick();
    if (picked instanceof Promise) {
      picked.then(
        (backend) => this.#use(backend),
        () => this.#use(undefined),
      );
    } else this.#use(picked);
  }

  #use(backend: Backend | undefined): void {
    if (this.#phase !== 'picking') {
      if (backend !== undefined) this.#exchange.release(backend);
      return;
    }
    if (backend === undefined) {
      this.#answer(this.#attempts.problem);
      return;
    }
    this.#phase = 'dialling';
    this.#arm(backend.openMs(this.#exchange.limits.dialMs));
    this.#attempts.begin(backend);
  }

  #sayContinue(): void {
    if (this.#body.isRead || this.#body.isReading || this.#head.header('expect')?.toLowerCase() !== '100-continue')
      return;
    this.onInformation(100, []);
  }

  readonly #onSent = (error?: Error | null): void => {
    this.#unsent.count();
    if (this.#isClientFull && (error ?? null) === null && this.#stream.writableLength === 0) this.#onClientDrain();
  };

  #onClientDrain(): void {
    this.#isClientFull = false;
    this.#arm(this.#exchange.limits.idleMs);
    this.#attempts.attempt?.resume();
  }

  #armForAnswer(): void {
    const { limits } = this.#exchange;
    this.#arm(this.#body.isRead || this.#head.upgrade !== undefined ? limits.firstByteMs : limits.idleMs);
  }

  #arm(ms: number): void {
    if (this.#phase !== 'picking') this.#deadlineMs = this.#deadlines.after(ms);
  }

  #answer(problem: Problem): void {
    this.#attempts.letGo();
    this.#send(this.#exchange.answerFor(problem));
  }

  #send(answer: ReturnType<Exchange['answerFor']>): void {
    this.#phase = 'over';
    this.#body.dropCollected();
    this.#arm(this.#exchange.limits.idleMs);
    if (this.#stream.headersSent) return this.#breakOff();
    this.#status = answer.status;
    this.#bytesOut += sendAnswer(this.#stream, answer, this.#head.method === 'HEAD');
  }

  #breakOff(): void {
    this.#isBrokenOff = true;
    this.#attempts.letGo();
    this.#phase = 'over';
    this.#stream.close(constants.NGHTTP2_INTERNAL_ERROR);
  }

  #onClose(): void {
    const isAnswered = this.#phase === 'over' && this.#stream.rstCode === constants.NGHTTP2_NO_ERROR;
    this.#attempts.letGo();
    this.#body.dropCollected();
    this.#unsent.count();
    this.#phase = 'over';
    this.#deadlineMs = Infinity;
    this.#exchange.end({
      status: this.#status,
      bytesIn: this.#body.bytes,
      bytesOut: this.#bytesOut,
      how: this.#isBrokenOff ? 'broken-off' : isAnswered ? 'answered' : 'client-gone',
    });
    this.#deadlines.delete(this);
    this.#onOver();
  }
}
