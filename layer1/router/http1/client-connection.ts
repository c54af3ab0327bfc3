/** A client's connection: one request after the other, each answered before the next begins. */
import type { Socket } from 'node:net';
import type { Answer, Client, Front, Policy } from '../exchange.ts';
import type { Upstream } from '../http2/attempt.ts';
import { reset } from '../reset.ts';
import type { Deadlines, Watched } from './deadlines.ts';
import { HeadProblem } from './fields.ts';
import { giveBack } from './give-back.ts';
import { HeadReader } from './head-reader.ts';
import type { Pools } from './pool.ts';
import { problemOfPartialRequest, readRequestHead } from './request-head.ts';
import { Outbox } from './outbox.ts';
import type { Http1RequestHead } from './request-head.ts';
import { answerText } from './rewrite.ts';
import { Transfer } from './transfer.ts';

/** For a head to be whole, from its first byte or the begin of the connection. */
const headMs = 60_000;
/** Longer than the usual 60 s of a load balancer in front, so that it is the one that closes. */
const keepAliveMs = 75_000;
/** After the last answer, for what the client is still sending: closed at once, it might never see the answer. */
const lingerMs = 2_000;
/** What is held of later requests before nothing more is read. */
const heldBytes = 65_536;

const nothing = Buffer.alloc(0);
/** How HTTP/2 begins; a client that sends it in pieces is told that this is HTTP/1. */
const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\n');

/** What all connections of a front share. */
export type FrontContext = {
  readonly policy: Policy;
  readonly pools: Pools;
  readonly h2c: Upstream;
  readonly deadlines: Deadlines;
  readonly isDraining: boolean;
  /** Whether an answer ends this connection, though the client would have it go on; asked once for each that may. */
  isLetGo(connection: ClientConnection): boolean;
  /** Takes connections whose client begins to speak HTTP/2 without asking (RFC 9113 3.3). */
  readonly http2: Pick<Front, 'take'> | undefined;
  closed(connection: ClientConnection): void;
};

/** One request of a connection, whatever its backend speaks. It calls `finished` or `breakOff` once, or the client is gone. */
export interface ClientTransfer {
  start(): void;
  /** Takes of the client's bytes what belongs to this request, and answers up to where. */
  takeBody(buffer: Buffer, from: number, to: number): number;
  /** The client has no more for now. */
  flush(): void;
  /** None of the bytes that it took is still needed: not even by a write that is under way. */
  readonly isThroughWithBytes: boolean;
  /** All that was written to the client is out. */
  onFlushed(): void;
  /** It has ended its side. */
  clientEnded(): void;
  clientGone(): void;
  tick(nowMs: number): void;
}

type State = 'fresh' | 'head' | 'idle' | 'busy' | 'lingering';

export class ClientConnection implements Watched {
  readonly socket: Socket;
  readonly outbox: Outbox;
  readonly client: Client;
  readonly context: FrontContext;
  readonly beganMs: number;
  readonly #reader = new HeadReader(readRequestHead, problemOfPartialRequest);
  #state: State = 'fresh';
  #deadlineMs: number;
  /** When its last answer ended, or it began. */
  #restsSinceMs: number;
  #transfer: ClientTransfer | undefined;
  /** Read, and not to be understood yet. */
  #held: Buffer | undefined;
  #isConsuming = false;
  /** It said that this request is its last, and that nothing follows it. */
  #isLast = false;
  #isFull = false;
  isPaused = false;
  hasEnded = false;

  constructor(socket: Socket, client: Client, context: FrontContext) {
    this.socket = socket;
    this.outbox = new Outbox(socket);
    this.client = client;
    this.context = context;
    this.#deadlineMs = context.deadlines.after(headMs);
    this.beganMs = context.deadlines.nowMs;
    this.#restsSinceMs = this.beganMs;
    socket.on('data', this.#onData);
    socket.on('end', this.#onFin);
    // `close` follows and does the cleaning up.
    socket.on('error', () => {});
    socket.on('close', this.#onClose);
    context.deadlines.add(this);
  }

  /** For so long no request has been under way; 0 until the last answer is out. */
  get idleMs(): number {
    const isIdle = (this.#state === 'idle' || this.#state === 'fresh') && this.outbox.length === 0;
    return isIdle ? this.context.deadlines.nowMs - this.#restsSinceMs : 0;
  }

  /** Bytes that were read before this connection was taken over. */
  begin(early: Buffer): void {
    this.#onData(early);
  }

  /** The next request, or what is held of this one's body. */
  pump(): void {
    if (this.#isConsuming) return;
    const held = this.#held;
    this.#held = undefined;
    this.#consume(held ?? nothing);
    if (this.#held !== undefined || !this.#isFull) return;
    this.#isFull = false;
    if (!this.isPaused) this.socket.resume();
  }

  /** Until `resume`, when the backend does not take more. */
  pause(): void {
    this.isPaused = true;
    this.socket.pause();
  }

  resume(): void {
    if (!this.isPaused) return;
    this.isPaused = false;
    if (!this.#isFull) this.socket.resume();
  }

  /** Tells the transfer when all that was written is out. */
  flushed(): void {
    this.outbox.flushed(() => this.#transfer?.onFlushed());
  }

  connectionField(head: Http1RequestHead, keepsAlive: boolean): string {
    if (!keepsAlive) return 'connection: close\r\n';
    return head.protocol === 'HTTP/1.0' ? 'connection: keep-alive\r\n' : '';
  }

  /** `isBodyDone`: an end before that would have the client lose the answer, so it is only one that drains. */
  endsWithAnswer(isBodyDone: boolean): boolean {
    return this.context.isDraining || (isBodyDone && this.context.isLetGo(this));
  }

  answer(answer: Answer, head: Http1RequestHead, keepsAlive: boolean): void {
    const connection = this.connectionField(head, keepsAlive);
    this.outbox.write(answerText(answer, { isForHead: head.method === 'HEAD', connection }));
  }

  /** The transfer is through. */
  finished(keepsAlive: boolean): void {
    this.#transfer = undefined;
    if (!keepsAlive) {
      if (this.#mayClose) this.#close();
      else this.#linger();
      return;
    }
    this.#state = 'idle';
    this.#deadlineMs = this.context.deadlines.after(keepAliveMs);
    this.#restsSinceMs = this.context.deadlines.nowMs;
    this.resume();
    if (this.#held !== undefined || this.hasEnded) this.pump();
  }

  /** Of an answer whose end is that of the connection, an orderly end would make half look like all. */
  breakOff(isFramed: boolean): void {
    this.#transfer = undefined;
    this.outbox.flush();
    if (isFramed) this.socket.destroy();
    else reset(this.socket);
  }

  tick(nowMs: number): void {
    if (this.#transfer !== undefined) this.#transfer.tick(nowMs);
    else if (nowMs <= this.#deadlineMs) return;
    else if (this.#state === 'head') {
      const message = `The head of the request did not come within ${headMs / 1_000} s.`;
      this.#refuse(new HeadProblem(408, 'request-timeout', message));
    } else this.socket.destroy();
  }

  readonly #onData = (chunk: Buffer): void => {
    if (this.#state === 'fresh' && chunk[0] === 0x50 && this.#speaksHttp2(chunk)) return;
    const held = this.#held;
    this.#held = undefined;
    const isOnes = this.#consume(held === undefined ? chunk : Buffer.concat([held, chunk]));
    const isKept = !isOnes || held !== undefined || this.#held !== undefined;
    if (!isKept && this.#transfer?.isThroughWithBytes === true) giveBack(chunk);
    if (this.#heldLength() <= heldBytes) return;
    this.#isFull = true;
    this.socket.pause();
  };

  #heldLength(): number {
    return this.#held?.length ?? 0;
  }

  /** Whether no other transfer than the one there is now took any of it. */
  #consume(chunk: Buffer): boolean {
    this.#isConsuming = true;
    let isOnes = true;
    let taker = this.#transfer;
    const to = chunk.length;
    let at = 0;
    while (at < to) {
      if (this.#state === 'lingering') at = to;
      else if (this.#transfer === undefined) at = this.#readHead(chunk, at, to);
      else {
        const until = this.#transfer.takeBody(chunk, at, to);
        if (until === at && this.#transfer !== undefined) break;
        at = until;
      }
      if (taker !== undefined && taker !== this.#transfer) isOnes = false;
      taker = this.#transfer;
    }
    if (at < to) this.#held = at === 0 ? chunk : chunk.subarray(at);
    this.#isConsuming = false;
    if (this.#transfer !== undefined) this.#transfer.flush();
    // What is there of another head will never be whole.
    else if (this.hasEnded && (this.#state === 'idle' || this.#state === 'head')) this.#linger();
    return isOnes;
  }

  #readHead(chunk: Buffer, from: number, to: number): number {
    const head = this.#reader.read(chunk, from, to);
    if (head === undefined) {
      if (this.#state === 'idle') this.#deadlineMs = this.context.deadlines.after(headMs);
      this.#state = 'head';
      return to;
    }
    if (head instanceof HeadProblem) {
      this.#refuse(head);
      return to;
    }
    const { end } = this.#reader;
    this.#state = 'busy';
    this.#isLast = !head.keepsAlive && head.body === 'none' && head.upgrade === undefined;
    const verdict = this.context.policy.admit(head, this.client);
    if ('answer' in verdict) {
      // A body that was announced must not be taken for the next request.
      const keepsAlive = head.keepsAlive && head.body === 'none' && !this.endsWithAnswer(true);
      this.answer(verdict.answer, head, keepsAlive);
      this.finished(keepsAlive);
    } else {
      this.#transfer = new Transfer(this, head, verdict.exchange);
      this.#transfer.start();
      if (this.hasEnded) this.#transfer?.clientEnded();
    }
    return end;
  }

  #refuse({ status, code, message }: HeadProblem): void {
    const answer = this.context.policy.refuse(status, code, message, this.client);
    this.outbox.write(answerText(answer, { isForHead: false, connection: 'connection: close\r\n' }));
    this.#linger();
  }

  /** The kernel has the whole answer, and no bytes of the client's are left, for which it would take the answer back. */
  get #mayClose(): boolean {
    if (!this.#isLast || this.#isConsuming || this.#held !== undefined || this.client.isTls) return false;
    this.outbox.flush();
    return this.outbox.length === 0;
  }

  /** Without ending our side and waiting for the client's: two calls of the kernel less, and two turns of the loop. */
  #close(): void {
    this.#state = 'lingering';
    this.socket.destroy();
  }

  #linger(): void {
    this.#state = 'lingering';
    this.#held = undefined;
    this.#deadlineMs = this.context.deadlines.after(lingerMs);
    this.outbox.end();
    this.isPaused = false;
    this.socket.resume();
  }

  readonly #onFin = (): void => {
    this.hasEnded = true;
    if (this.#transfer !== undefined) this.#transfer.clientEnded();
    else if (this.#state !== 'lingering') this.#linger();
  };

  readonly #onClose = (): void => {
    this.context.deadlines.delete(this);
    this.context.closed(this);
    const transfer = this.#transfer;
    this.#transfer = undefined;
    transfer?.clientGone();
  };

  /** Hands the connection over if so. */
  #speaksHttp2(chunk: Buffer): boolean {
    const { http2 } = this.context;
    if (http2 === undefined || chunk.indexOf(preface) !== 0) return false;
    this.socket.removeListener('data', this.#onData);
    this.socket.removeListener('end', this.#onFin);
    this.socket.removeListener('close', this.#onClose);
    this.socket.pause();
    this.#onClose();
    http2.take(this.socket, this.client, chunk);
    return true;
  }
}
