/** A connection to a backend: reads its answers, and tells whoever asked what comes, without keeping anything of it. */
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import type { Backend } from '../backend.ts';
import { connectMutually } from '../mutual.ts';
import type { MutualClient } from '@flynn/kit/http-client';
import { ChunkedBody } from './chunked.ts';
import type { Deadlines, Watched } from './deadlines.ts';
import { HeadProblem } from './fields.ts';
import { HeadReader } from './head-reader.ts';
import { Outbox } from './outbox.ts';
import { problemOfPartialResponse, readResponseHead } from './response-head.ts';
import type { Http1ResponseHead } from './response-head.ts';

/** Below the 5 s after which many servers close an idle connection, so that it is us who close it. */
const idleMs = 4_000;
/** Room before what is read, so that another head fits in front of a body that came with its own. */
const headroomBytes = 2_048;
const readBytes = 65_536;
/** Who works for hours says so now and then; who says nothing else is told to stop. */
const maxInformation = 2_000;
/** A handshake takes its time with one that is there; this long the kernel of one may take to say that it is. */
const reachMs = 1_000;
/** Once nothing more can be written, for each piece of what the kernel still has: that is there already. */
const restMs = 200;

/** Whoever asked. What is told lies in a buffer that is used again: it is gone when the call returns, unless reading is paused. */
export interface AnswerReceiver {
  /** Chunked bodies are told with their frame, as they came; else only what is in them. */
  readonly takesChunks: boolean;
  onConnected(): void;
  onInformation(head: Http1ResponseHead): void;
  onHead(head: Http1ResponseHead): void;
  /** In front of `from` there may be `room` bytes that can be written over. */
  onBytes(buffer: Buffer, from: number, to: number, room: number): void;
  /** The fields after a chunked body, and its end. */
  onTail(text: string): void;
  /** All of the answer was told. */
  onEnd(): void;
  /** Nothing more comes now: what was held back for the next bytes goes out. */
  onPause(): void;
  /** The backend ended its side of a connection that was upgraded. */
  onTunnelEnd(): void;
  /** Before the answer's end. Nothing is told after it. */
  onBroken(error: Error): void;
  /** What was written is out. */
  onDrain(): void;
}

type State = 'connecting' | 'head' | 'body' | 'tunnel' | 'idle' | 'closed';

/** INVARIANT. It has a receiver exactly while it is not idle; when that is told of the end or the break, it is let go. */
export class BackendConnection implements Watched {
  readonly backend: Backend;
  readonly socket: Socket;
  readonly outbox: Outbox;
  readonly #deadlines: Deadlines;
  readonly #reader = new HeadReader(readResponseHead, problemOfPartialResponse);
  readonly #onClosed: (connection: BackendConnection) => void;
  #state: State = 'connecting';
  #receiver: AnswerReceiver | undefined;
  #isForHead = false;
  #head: Http1ResponseHead | undefined;
  #left = 0;
  #chunks: ChunkedBody | undefined;
  #informed = 0;
  #isUsable = true;
  #idleUntilMs = 0;
  #reachUntilMs = Infinity;
  #restUntilMs = Infinity;
  #error: Error | undefined;
  idleSinceMs = 0;
  /** Of this answer. */
  payloadBytes = 0;
  hasAnswered = false;

  constructor(
    backend: Backend,
    receiver: AnswerReceiver,
    options: { deadlines: Deadlines; onClosed: (connection: BackendConnection) => void },
  ) {
    this.backend = backend;
    this.#receiver = receiver;
    this.#deadlines = options.deadlines;
    this.#onClosed = options.onClosed;
    const socket = backend.mutual === undefined ? this.#connect() : this.#connectMutually(backend.mutual);
    this.socket = socket;
    this.outbox = new Outbox(socket);
    backend.own(socket);
    socket.on('drain', () => this.#receiver?.onDrain());
    socket.on('end', () => this.#onFin());
    socket.on('error', (error) => (this.#error = error));
    socket.on('close', () => this.#close(this.#error ?? new Error('the connection was closed')));
    // Who does not read does not hear of the end.
    socket.resume();
    this.#deadlines.add(this);
  }

  #connect(): Socket {
    const { host, port } = this.backend;
    const whole = Buffer.allocUnsafeSlow(headroomBytes + readBytes);
    const socket = connect({
      host,
      port,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: 15_000,
      // Half-close is the business of whoever talks over it: a git client ends its side first.
      allowHalfOpen: true,
      onread: {
        buffer: whole.subarray(headroomBytes),
        callback: (bytes) => this.#onRead(whole, headroomBytes, headroomBytes + bytes),
      },
    });
    const destroy = socket.destroy.bind(socket);
    socket.destroy = (error?: Error) => (this.#mayHaveRest(error) ? socket : destroy(error));
    return socket.once('connect', () => this.#onConnect());
  }

  /**
   * An app that answers early and closes, with some of the body unread, has its kernel reset the connection. What it said lies
   * here then, and is to be read; Node destroys the socket when a write fails, and what lies there with it. Answers whether
   * that is put off: to the end, which is none in order, for who wrote has been told of the reset in the place of who reads.
   */
  #mayHaveRest(error: (Error & { code?: string; syscall?: string }) | undefined): boolean {
    if (error?.syscall !== 'write' || (error.code !== 'EPIPE' && error.code !== 'ECONNRESET')) return false;
    if (this.#receiver === undefined || (this.#state !== 'head' && this.#state !== 'body')) return false;
    this.#error = error;
    this.#restUntilMs = this.#deadlines.after(restMs);
    // What is read does not come by there. Of a stream with an error Node tells no end.
    this.socket.push = () => {
      this.#close(error);
      return false;
    };
    return true;
  }

  /** What it reads comes in memory of its own: over TLS more may come of what had arrived when reading was paused. */
  #connectMutually(mutual: MutualClient): Socket {
    const socket = connectMutually(this.backend, mutual);
    this.#reachUntilMs = this.#deadlines.after(reachMs);
    socket.once('connect', () => (this.#reachUntilMs = Infinity));
    socket.once('secureConnect', () => this.#onConnect());
    return socket.on('data', (bytes: Buffer) => void this.#onRead(bytes, 0, bytes.length));
  }

  get isClosed(): boolean {
    return this.#state === 'closed';
  }

  /** Ready for another request once the last was answered whole, with nothing said after it. */
  get isUsable(): boolean {
    return this.#isUsable && this.#state === 'idle' && this.#restUntilMs === Infinity;
  }

  /** Begins another exchange over a connection that was idle. */
  use(receiver: AnswerReceiver): void {
    this.#receiver = receiver;
    this.#state = 'head';
  }

  /** Before the request is written: the answer to HEAD has no body. */
  expect(options: { isForHead: boolean }): void {
    this.#isForHead = options.isForHead;
    this.#informed = 0;
    this.payloadBytes = 0;
    this.hasAnswered = false;
  }

  rest(): void {
    this.idleSinceMs = performance.now();
    this.#idleUntilMs = this.#deadlines.after(idleMs);
  }

  /** Nothing is told any more. */
  destroy(): void {
    this.#receiver = undefined;
    this.#close(undefined);
  }

  tick(nowMs: number): void {
    if (this.#state === 'idle' && nowMs > this.#idleUntilMs) this.destroy();
    if (nowMs > this.#reachUntilMs) this.#close(new Error(`no answer within ${reachMs} ms`));
    // Of one that is paused there may be more.
    if (nowMs > this.#restUntilMs && !this.socket.isPaused()) this.#close(this.#error);
  }

  #onConnect(): void {
    if (this.#state !== 'connecting') return;
    this.#state = 'head';
    this.#receiver?.onConnected();
  }

  #onRead(buffer: Buffer, from: number, to: number): boolean {
    const receiver = this.#receiver;
    if (this.#restUntilMs !== Infinity) this.#restUntilMs = this.#deadlines.after(restMs);
    // Something said without being asked: whose answer it would be nobody can tell.
    if (receiver === undefined || this.#state === 'idle') {
      this.destroy();
      return false;
    }
    this.#feed(receiver, buffer, from, to);
    if (this.#receiver === receiver) receiver.onPause();
    return true;
  }

  #feed(receiver: AnswerReceiver, buffer: Buffer, from: number, to: number): void {
    let at = from;
    this.hasAnswered = true;
    while (this.#state === 'head') {
      const head = this.#reader.read(buffer, at, to);
      if (head === undefined) return;
      if (head instanceof HeadProblem) return this.#close(new Error(head.message));
      at = this.#reader.end;
      if (head.status < 200 && head.status !== 101) {
        this.#informed += 1;
        if (this.#informed > maxInformation) return this.#close(new Error('there is no end of preliminary answers'));
        receiver.onInformation(head);
      } else this.#begin(receiver, head, at < to);
      // Perhaps it is another's already.
      if (this.#receiver !== receiver) return;
    }
    if (at === to) return;
    if (this.#state === 'tunnel') receiver.onBytes(buffer, at, to, at);
    else if (this.#chunks !== undefined) this.#feedChunks(receiver, this.#chunks, buffer, at, to);
    else this.#feedPlain(receiver, buffer, at, to);
  }

  #begin(receiver: AnswerReceiver, head: Http1ResponseHead, hasMore: boolean): void {
    this.#head = head;
    this.#isUsable = head.keepsAlive && head.framing !== 'until-close';
    if (head.status === 101) {
      this.#isUsable = false;
      this.#state = 'tunnel';
      receiver.onHead(head);
      return;
    }
    this.#state = 'body';
    this.#left = head.length;
    this.#chunks = head.framing === 'chunked' ? new ChunkedBody() : undefined;
    receiver.onHead(head);
    if (this.#receiver !== receiver) return;
    if (this.#isForHead) this.#isUsable = head.keepsAlive;
    if (this.#isForHead || head.framing === 'none') this.#end(receiver, hasMore);
  }

  #feedPlain(receiver: AnswerReceiver, buffer: Buffer, from: number, to: number): void {
    const isUntilClose = this.#head?.framing === 'until-close';
    const until = isUntilClose ? to : Math.min(to, from + this.#left);
    this.#left -= until - from;
    this.payloadBytes += until - from;
    receiver.onBytes(buffer, from, until, from);
    if (!isUntilClose && this.#left === 0 && this.#receiver === receiver) this.#end(receiver, until < to);
  }

  #feedChunks(receiver: AnswerReceiver, chunks: ChunkedBody, buffer: Buffer, from: number, to: number): void {
    let at = from;
    if (receiver.takesChunks) {
      const until = chunks.pass(buffer, from, to);
      at = chunks.taken;
      if (until > from) receiver.onBytes(buffer, from, until, from);
    } else {
      while (at < to && !chunks.isDone && !chunks.isBad) {
        at = chunks.step(buffer, at, to);
        const { dataFrom, dataTo } = chunks;
        if (dataTo > dataFrom) receiver.onBytes(buffer, dataFrom, dataTo, dataFrom === from ? from : 0);
        if (this.#receiver !== receiver) return;
      }
    }
    this.payloadBytes = chunks.payloadBytes;
    if (this.#receiver !== receiver) return;
    if (chunks.isBad) this.#close(new Error('a chunk of the answer is broken'));
    else if (chunks.isDone) {
      if (chunks.tail !== '') receiver.onTail(chunks.tail);
      if (this.#receiver === receiver) this.#end(receiver, at < to);
    }
  }

  /** Bytes after the end of an answer belong to nobody. */
  #end(receiver: AnswerReceiver, hasMore: boolean): void {
    if (hasMore) this.#isUsable = false;
    this.#state = 'idle';
    this.#receiver = undefined;
    receiver.onEnd();
  }

  #onFin(): void {
    if (this.#state === 'tunnel') this.#receiver?.onTunnelEnd();
    else if (this.#state === 'body' && this.#head?.framing === 'until-close' && this.#receiver !== undefined) {
      this.#end(this.#receiver, false);
    } else this.#close(new Error('the connection was closed'));
  }

  #close(error: Error | undefined): void {
    if (this.#state === 'closed') return;
    this.#state = 'closed';
    this.#deadlines.delete(this);
    this.socket.destroy();
    const receiver = this.#receiver;
    this.#receiver = undefined;
    this.#onClosed(this);
    if (error !== undefined) receiver?.onBroken(error);
  }
}
