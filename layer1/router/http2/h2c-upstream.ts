/** Backends that speak HTTP/2 without TLS, such as gRPC servers: sessions kept per backend, requests side by side in them. */
import { connect, constants } from 'node:http2';
import type { ClientHttp2Session, ClientHttp2Stream } from 'node:http2';
import { connect as connectSocket } from 'node:net';
import type { Socket } from 'node:net';
import { hasVanished } from '../backend.ts';
import type { Backend } from '../backend.ts';
import type { Fields } from '../exchange.ts';
import type { Deadlines, Watched } from '../http1/deadlines.ts';
import type { Attempt, Failure, Receiver, Upstream, UpstreamRequest } from './attempt.ts';
import { endWithTrailers } from './ending.ts';
import { answerFields, forEachClientField, listBytes, trailerFields } from './fields.ts';

const idleMs = 60_000;
/** After a session's end, for the backend to end its side too. */
const lingerMs = 2_000;
const windowBytes = 1_048_576;
/** RFC 9113 6.5.2 asks for at least 100; a backend that says nothing allows any number. */
const maxStreams = 250;

/**
 * A field that a client repeats is the backend's to judge. Whatever a front takes can be sent: a head that is too long for nghttp2
 * would end the session, which is others' too.
 */
const sessionOptions = {
  settings: { enablePush: false, initialWindowSize: windowBytes / 4, maxHeaderListSize: 65_536 },
  maxHeaderListPairs: 200,
  maxSendHeaderBlockLength: 262_144,
  maxSessionInvalidFrames: 100,
  strictSingleValueFields: false,
};

/**
 * One connection. It takes requests from when the backend has said SETTINGS, which tells that it speaks HTTP/2 at all,
 * until it says GOAWAY, fails, or the backend leaves; those under way then end by themselves.
 */
class Session {
  readonly session: ClientHttp2Session;
  #socket: Socket | undefined;
  #endedMs: number | undefined;
  readonly #place: (attempt: H2cAttempt) => void;
  #waiting: H2cAttempt[] = [];
  /** How many it takes at the same time: a guess until it has said so. */
  allowed: number;
  /** Of a request's head, as HTTP/2 counts it. */
  headBytes = Infinity;
  #isReady = false;
  #isEnding = false;
  #streams = 0;
  readonly #nowMs: () => number;
  idleSinceMs: number;
  hasVanished = false;

  /** `place` finds a session for what was more than this one takes; `nowMs` tells the time as whoever ticks does. */
  constructor(
    backend: Backend,
    options: { allowed: number; place: (attempt: H2cAttempt) => void; nowMs: () => number },
  ) {
    this.#nowMs = options.nowMs;
    this.idleSinceMs = options.nowMs();
    const host = backend.host.includes(':') ? `[${backend.host}]` : backend.host;
    this.#place = options.place;
    this.allowed = options.allowed;
    this.session = connect(`http://${host}:${backend.port}`, {
      ...sessionOptions,
      createConnection: () => {
        const socket = connectSocket({ host: backend.host, port: backend.port, noDelay: true });
        this.#socket = socket;
        backend.own(socket);
        socket.once('error', (error) => (this.hasVanished = hasVanished(error)));
        return socket;
      },
    });
    this.session.once('connect', () => {
      // Told too of one that was given up while it connected.
      if (!this.session.destroyed) this.session.setLocalWindowSize(windowBytes);
    });
    this.session.on('remoteSettings', (settings) => {
      this.#isReady = true;
      this.headBytes = settings.maxHeaderListSize ?? Infinity;
      this.allowed = Math.min(settings.maxConcurrentStreams ?? maxStreams, maxStreams);
      const waiting = this.#waiting.splice(0);
      const surplus = waiting.splice(Math.max(1, this.allowed));
      this.#streams -= surplus.length;
      for (const attempt of waiting) attempt.openOn(this);
      for (const attempt of surplus) this.#place(attempt);
    });
    this.session.once('goaway', () => (this.#isEnding = true));
    // 'close' follows.
    this.session.on('error', () => undefined);
    this.session.once('close', () => {
      this.#isEnding = true;
      for (const attempt of this.#waiting.splice(0)) attempt.fail('dial');
    });
  }

  get isOver(): boolean {
    return this.#isEnding || this.session.closed || this.session.destroyed;
  }

  get hasRoom(): boolean {
    return !this.isOver && this.#streams < this.allowed;
  }

  get isIdle(): boolean {
    return this.#streams === 0;
  }

  get speaksWebSocket(): boolean {
    return this.session.remoteSettings.enableConnectProtocol === true;
  }

  add(attempt: H2cAttempt): void {
    this.#streams += 1;
    if (this.#isReady) attempt.openOn(this);
    else this.#waiting.push(attempt);
  }

  remove(attempt: H2cAttempt): void {
    this.#streams -= 1;
    this.idleSinceMs = this.#nowMs();
    const at = this.#waiting.indexOf(attempt);
    if (at !== -1) this.#waiting.splice(at, 1);
    // Nobody needs a connection any more that never was one.
    if (!this.#isReady && this.#waiting.length === 0) this.session.destroy();
  }

  close(): void {
    this.#isEnding = true;
    this.session.close();
  }

  /** Whether nothing is left of it. node:http2 ends our side of the connection, and then waits for the backend's. */
  isGone(nowMs: number): boolean {
    if (!this.session.destroyed) return false;
    this.#endedMs ??= nowMs;
    if (nowMs - this.#endedMs > lingerMs) this.#socket?.destroy();
    return this.#socket?.destroyed !== false;
  }

  cut(): void {
    this.session.destroy();
    this.#socket?.destroy();
  }
}

class H2cAttempt implements Attempt {
  readonly #request: UpstreamRequest;
  readonly #place: (attempt: H2cAttempt) => void;
  #session: Session | undefined;
  #receiver: Receiver | undefined;
  #stream: ClientHttp2Stream | undefined;
  #trailers: Fields = [];
  #hasHead = false;
  #isUpgraded = false;
  #isOver = false;

  constructor(options: { request: UpstreamRequest; receiver: Receiver; place: (attempt: H2cAttempt) => void }) {
    this.#request = options.request;
    this.#receiver = options.receiver;
    this.#place = options.place;
  }

  begin(): void {
    this.#place(this);
  }

  waitFor(session: Session): void {
    this.#session = session;
    session.add(this);
  }

  openOn({ session, isOver, speaksWebSocket, headBytes }: Session): void {
    const { head } = this.#request;
    // While it waited: what it asked would break, as if the backend had had it.
    if (isOver) return this.fail('dial');
    if (head.upgrade !== undefined && !speaksWebSocket) return this.fail('broke');
    const isBodyless = head.body === 'none' && head.upgrade === undefined;
    const fields = this.#fields();
    // The backend would break it off, and be blamed for that.
    if (listBytes(fields) > headBytes) return this.fail('unfit');
    let stream: ClientHttp2Stream;
    try {
      stream = session.request(fields, { endStream: isBodyless, waitForTrailers: !isBodyless });
    } catch {
      // A field that node:http2 does not say: of a session that has ended it tells by the stream.
      return this.fail('unfit');
    }
    this.#stream = stream;
    stream.on('headers', (_fields, _flags, raw: string[]) => {
      const status = Number(raw[1]);
      if (status > 101) this.#receiver?.onInformation(status, answerFields(raw));
    });
    stream.on('response', (_fields, flags: number, raw: string[]) => this.#onHead(raw, flags));
    stream.on('data', (bytes: Buffer) => this.#receiver?.onData(bytes));
    stream.on('trailers', (_fields, _flags, raw: string[]) => (this.#trailers = trailerFields(raw)));
    stream.on('drain', () => this.#receiver?.onDrain());
    stream.on('end', () => this.#onEnd());
    stream.on('error', () => undefined);
    stream.on('close', () => {
      if (stream.rstCode === constants.NGHTTP2_REFUSED_STREAM) this.fail('refused');
      // As Node's own servers refuse a head that is too large for them, which they do not announce.
      else if (stream.rstCode === constants.NGHTTP2_ENHANCE_YOUR_CALM && !this.#hasHead && !session.destroyed)
        this.fail('unfit');
      else this.fail(this.#session?.hasVanished === true ? 'vanished' : 'broke');
    });
    this.#receiver?.onConnected();
  }

  write(bytes: Buffer): boolean {
    return this.#stream?.write(bytes) ?? false;
  }

  end(trailers: Fields): void {
    const stream = this.#stream;
    if (stream === undefined || stream.writableEnded || stream.destroyed) return;
    const fields = trailerFields(trailers);
    if (listBytes(fields) <= (this.#session?.headBytes ?? Infinity)) return endWithTrailers(stream, fields);
    this.fail('unfit');
    stream.close(constants.NGHTTP2_CANCEL);
  }

  pause(): void {
    this.#stream?.pause();
  }

  resume(): void {
    this.#stream?.resume();
  }

  abort(): void {
    this.#receiver = undefined;
    this.#stream?.close(constants.NGHTTP2_CANCEL);
    this.#leave();
  }

  fail(failure: Failure): void {
    const receiver = this.#receiver;
    this.#receiver = undefined;
    this.#leave();
    receiver?.onFailure(failure);
  }

  #leave(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#session?.remove(this);
  }

  #fields(): string[] {
    const { head, exchange } = this.#request;
    const isUpgrade = head.upgrade !== undefined;
    const fields = [':method', isUpgrade ? 'CONNECT' : head.method, ':scheme', 'http', ':authority', head.authority];
    fields.push(':path', exchange.target);
    if (head.upgrade !== undefined) fields.push(':protocol', head.upgrade);
    forEachClientField(head, exchange, (name, value) => fields.push(name, value));
    fields.push(...exchange.requestFields);
    // What the client takes of trailers is told on, as gRPC servers ask for it.
    if (head.header('te') !== undefined) fields.push('te', 'trailers');
    if (typeof head.body === 'number') fields.push('content-length', String(head.body));
    return fields;
  }

  #onHead(raw: string[], flags: number): void {
    const status = Number(raw[1]);
    const fields = answerFields(raw);
    this.#hasHead = true;
    if (this.#request.head.upgrade !== undefined && status < 300) {
      this.#isUpgraded = true;
      this.#receiver?.onUpgraded(fields);
      return;
    }
    const isWhole = (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0;
    this.#receiver?.onHead(status, fields, isWhole ? 'none' : 'open');
  }

  #onEnd(): void {
    const stream = this.#stream;
    // The readable side of a broken stream ends as well.
    if (!this.#hasHead || stream === undefined || stream.aborted || stream.rstCode !== constants.NGHTTP2_NO_ERROR)
      return;
    const receiver = this.#receiver;
    this.#receiver = undefined;
    this.#leave();
    // The rest of the request is of no use to a backend that has said all.
    if (!stream.writableEnded || this.#isUpgraded) stream.close(constants.NGHTTP2_CANCEL);
    receiver?.onEnd(this.#trailers);
  }
}

export class H2cUpstream implements Upstream, Watched, Disposable {
  readonly #sessions = new Map<Backend, Session[]>();
  readonly #deadlines: Deadlines;

  constructor(deadlines: Deadlines) {
    this.#deadlines = deadlines;
  }

  open(backend: Backend, request: UpstreamRequest, receiver: Receiver): Attempt {
    return new H2cAttempt({ request, receiver, place: (attempt) => this.#place(backend, attempt) });
  }

  tick(nowMs: number): void {
    for (const [backend, sessions] of this.#sessions) {
      const kept = sessions.filter((session) => {
        const isOld = session.isIdle && (backend.isLeaving || nowMs - session.idleSinceMs > idleMs);
        if (isOld && !session.isOver) session.close();
        return !session.isGone(nowMs);
      });
      if (kept.length === 0) this.#sessions.delete(backend);
      else this.#sessions.set(backend, kept);
    }
    if (this.#sessions.size === 0) this.#deadlines.delete(this);
  }

  [Symbol.dispose](): void {
    for (const session of [...this.#sessions.values()].flat()) session.cut();
    this.#sessions.clear();
    this.#deadlines.delete(this);
  }

  #place(backend: Backend, attempt: H2cAttempt): void {
    const sessions = this.#sessions.get(backend) ?? [];
    let session = sessions.find((known) => known.hasRoom);
    if (session === undefined) {
      const allowed = sessions.at(-1)?.allowed ?? maxStreams;
      if (this.#sessions.size === 0) this.#deadlines.add(this);
      session = new Session(backend, {
        allowed,
        place: (surplus) => this.#place(backend, surplus),
        nowMs: () => this.#deadlines.nowMs,
      });
      sessions.push(session);
      this.#sessions.set(backend, sessions);
    }
    attempt.waitFor(session);
  }
}
