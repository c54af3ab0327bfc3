/** HTTP/2 with clients, over TLS or with prior knowledge, on the core of node:http2: streams, not request objects. */
import { constants, performServerHandshake } from 'node:http2';
import type { ServerHttp2Session, ServerHttp2Stream, ServerSessionOptions } from 'node:http2';
import type { Socket } from 'node:net';
import { systemClock } from '@flynn/kit/clock';
import type { Logger } from '@flynn/kit/log';
import { drainLookMs } from '../closing.ts';
import type { Client, Front, Policy } from '../exchange.ts';
import type { Deadlines, Watched } from '../http1/deadlines.ts';
import type { Shared } from '../http1/front.ts';
import { sendAnswer } from './answer.ts';
import { Collected } from './collected.ts';
import type { H2cUpstream } from './h2c-upstream.ts';
import { Http1Upstream } from './http1-upstream.ts';
import { Http2Head, readRequest } from './request.ts';
import { Transfer } from './transfer.ts';
import { Unread } from './unread.ts';
import { Unsent } from './unsent.ts';

/** From the connection to the client's SETTINGS. */
const prefaceMs = 10_000;
/** Longer than the usual 60 s of a load balancer in front, so that it is the one that closes. */
const idleMs = 75_000;
/** A client that has requests under way and does not answer a ping until the next one is due is gone. */
const pingMs = 30_000;
/** Who connects while the router drains has a request to ask: it is answered, and then the connection ends. */
const goodbyeMs = 1_000;
/** After the end of a session that answered nothing, for the client to end its side too. */
const lingerMs = 2_000;
const windowBytes = 1_048_576;

/** What bounds a hostile client; nghttp2 bounds CONTINUATION (8 frames) and unanswered PING and SETTINGS (1,000). */
const sessionOptions: ServerSessionOptions = {
  settings: {
    maxConcurrentStreams: 128,
    initialWindowSize: windowBytes / 4,
    maxHeaderListSize: 65_536,
    enableConnectProtocol: true,
  },
  maxHeaderListPairs: 200,
  maxSendHeaderBlockLength: 262_144,
  maxSessionInvalidFrames: 100,
  maxSessionRejectedStreams: 100,
  maxOutstandingPings: 2,
  streamResetBurst: 200,
  streamResetRate: 33,
  strictSingleValueFields: false,
};

/** How a stream ended is told by `close` and its code. */
function ignore(): void {
  // Without a listener the process would end.
}

type Session = {
  readonly session: ServerHttp2Session;
  readonly socket: Socket;
  readonly client: Client;
  readonly unread: Unread;
  readonly collected: Collected;
  readonly unsent: Unsent;
  streams: number;
  isReady: boolean;
  idleSinceMs: number;
  pingedMs: number;
  isPingOut: boolean;
  hasAnswered: boolean;
  /** Once the session is over. */
  endedMs: number | undefined;
};

/**
 * Draining says GOAWAY with the last stream that is still answered: what crosses it on the way was not done, the client knows
 * that it was not, and asks again elsewhere (RFC 9113 8.7). A notice before it cannot be had: node:http2 refuses new streams
 * from any GOAWAY on.
 *
 * INVARIANTS. Every stream that was accepted ends with an answer, or is reset. A session without streams is kept for 75 s;
 * while draining none takes new ones for longer than a moment. What a client can make the router hold is bounded per
 * session: 128 streams, 64 KB of fields each, 256 KB of body each and 1 MB of all (`unread`), what is collected (`collected`), and
 * of answers 1 MB of all and what was read at once of each (`unsent`).
 */
export class Http2Front implements Front, Watched {
  readonly #policy: Policy;
  readonly #log: Logger;
  readonly #sessions = new Set<Session>();
  readonly #deadlines: Deadlines;
  readonly #upstreams: { readonly http1: Http1Upstream; readonly h2c: H2cUpstream };
  #isDraining = false;

  /** Connections to backends are shared with whoever else has these. */
  constructor(options: { policy: Policy; shared: Shared; log: Logger }) {
    const { policy, log } = options;
    const { deadlines, pools, h2c } = options.shared;
    this.#policy = policy;
    this.#log = log;
    this.#deadlines = deadlines;
    this.#upstreams = { http1: new Http1Upstream(pools), h2c };
    deadlines.add(this);
  }

  get connections(): number {
    return this.#sessions.size;
  }

  take(socket: Socket, client: Client, early?: Buffer): void {
    if (early !== undefined && early.length > 0) socket.unshift(early);
    const session = performServerHandshake(socket, sessionOptions);
    const known: Session = {
      session,
      socket,
      client,
      unread: new Unread(session, windowBytes),
      collected: new Collected(),
      unsent: new Unsent(),
      streams: 0,
      isReady: false,
      idleSinceMs: this.#deadlines.nowMs,
      pingedMs: this.#deadlines.nowMs,
      isPingOut: false,
      hasAnswered: false,
      endedMs: undefined,
    };
    this.#sessions.add(known);
    session.on('stream', (stream, _fields, flags, raw) => this.#onStream(known, stream, flags, raw));
    session.once('remoteSettings', () => (known.isReady = true));
    session.on('error', (error) =>
      this.#log.debug({ err: error, client: client.address }, 'an HTTP/2 connection broke'),
    );
    session.once('close', () => this.#sessions.delete(known));
    // After a standstill a timer comes before what has arrived meanwhile is read.
    if (this.#isDraining) setTimeout(() => setImmediate(() => session.close()), goodbyeMs).unref();
  }

  async drain({ deadlineMs }: { deadlineMs: number }): Promise<void> {
    const startedMs = performance.now();
    this.#isDraining = true;
    const elapsedMs = () => performance.now() - startedMs;
    for (const { session } of this.#sessions) session.close();
    while (this.#sessions.size > 0 && elapsedMs() < deadlineMs) await systemClock.sleep(drainLookMs(deadlineMs));
    for (const { session, socket } of this.#sessions) {
      session.destroy();
      socket.destroy();
    }
    this.#deadlines.delete(this);
  }

  tick(nowMs: number): void {
    for (const known of this.#sessions) this.#look(known, nowMs);
  }

  #onStream(known: Session, stream: ServerHttp2Stream, flags: number, raw: string[]): void {
    known.streams += 1;
    known.hasAnswered = true;
    stream.on('error', ignore);
    const isWhole = (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0;
    if (!isWhole) known.unread.watch(stream);
    const head = readRequest(raw, isWhole);
    if (!(head instanceof Http2Head)) {
      stream.once('close', () => this.#onStreamOver(known));
      sendAnswer(stream, this.#policy.refuse(head.status, head.code, head.message, known.client), false);
      return;
    }
    const verdict = this.#policy.admit(head, known.client);
    if ('answer' in verdict) {
      stream.once('close', () => this.#onStreamOver(known));
      sendAnswer(stream, verdict.answer, head.method === 'HEAD');
      return;
    }
    const transfer = new Transfer({
      stream,
      head,
      exchange: verdict.exchange,
      upstream: this.#upstreams[verdict.exchange.backendProtocol],
      deadlines: this.#deadlines,
      collected: known.collected,
      unsent: known.unsent,
      onOver: () => this.#onStreamOver(known),
    });
    transfer.start();
  }

  #onStreamOver(known: Session): void {
    known.streams -= 1;
    known.idleSinceMs = this.#deadlines.nowMs;
  }

  #look(known: Session, nowMs: number): void {
    const { session } = known;
    if (session.destroyed) {
      // node:http2 has ended our side, and waits for the client's, which may have megabytes to read that the kernel keeps: cut,
      // it would lose them with its next word to us.
      known.endedMs ??= nowMs;
      if (nowMs - known.endedMs > (known.hasAnswered ? idleMs : lingerMs)) known.socket.destroy();
      return;
    }
    if (known.streams === 0) {
      const idleForMs = nowMs - known.idleSinceMs;
      if (idleForMs > (known.isReady ? idleMs : prefaceMs)) session.close();
      // It was told to go and does not.
      if (idleForMs > idleMs + pingMs || (!known.isReady && idleForMs > prefaceMs)) session.destroy();
      known.pingedMs = nowMs;
    } else if (nowMs - known.pingedMs > pingMs) {
      if (known.isPingOut) session.destroy();
      else {
        known.pingedMs = nowMs;
        known.isPingOut = session.ping(() => (known.isPingOut = false));
      }
    }
  }
}
