/** Upgrades, WebSockets and any other: http-proxy is known to this file only, and does nothing else here (see forward.ts). */
import type { ClientRequest, IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { createProxyServer } from 'http-proxy';
import type { Backend } from '../backend.ts';
import type { Limits, Problem } from '../exchange.ts';
import type { Deadlines, Watched } from '../http1/deadlines.ts';
import type { RawHeaders } from './heads.ts';
import { OneConnection } from './one-connection.ts';

/** For the backend's last bytes to leave for the client. */
const lastBytesMs = 1_000;

export type Upgrade = {
  request: IncomingMessage;
  socket: Duplex;
  head: Buffer;
  /** Connected already; from here on it is the proxy's. */
  upstream: Socket;
  backend: Backend;
  headers: RawHeaders;
  target: string;
  limits: Limits;
  answered: (status: number) => void;
  refuse: (problem: Problem) => void;
};

/**
 * INVARIANT. When `run` resolves, both connections are closed: whichever side goes first takes the other with it, also
 * before the backend has answered, which http-proxy alone does not see to.
 */
export class UpgradeProxy {
  readonly #proxy = createProxyServer({});
  readonly #begun = new WeakMap<IncomingMessage, (upstreamRequest: ClientRequest) => void>();
  readonly #deadlines: Deadlines;

  constructor(deadlines: Deadlines) {
    this.#deadlines = deadlines;
    // What breaks a client's connection is told here as well, and ends the process where nobody listens. `run` hears of its close.
    this.#proxy.on('error', () => undefined);
    this.#proxy.on('proxyReqWs', (upstreamRequest, request) => this.#begun.get(request)?.(upstreamRequest));
  }

  async run({ request, socket, head, upstream, backend, limits, refuse, ...what }: Upgrade): Promise<void> {
    const closed = Promise.withResolvers<void>();
    let isUpgraded = false;
    let isAnswered = false;
    const close = () => {
      stopWaiting();
      upstream.destroy();
      socket.destroy();
      closed.resolve();
    };
    /** What is waited for: the answer, then the next byte, then that the last bytes have left. */
    let stopWaiting = this.#deadlines.start(limits.firstByteMs, () => {
      refuse('backend-late');
      close();
    });
    const waitForBytes = () => {
      stopWaiting();
      stopWaiting = this.#whenSilent(request.socket, limits.idleMs, close);
    };
    if (socket.destroyed) {
      close();
      return closed.promise;
    }
    socket.once('close', close);
    // Nobody reads from the client yet, and who does not read does not notice that it leaves. What it says early stays in
    // the buffer.
    const notice = () => {
      if (socket.readableLength === 0) socket.read();
    };
    const leave = () => {
      if (!isUpgraded) close();
    };
    socket.on('readable', notice);
    socket.once('end', leave);
    upstream.once('close', () => {
      // The client may not have taken all of an ordinary answer yet: its end ends the connection, or its silence.
      if (isAnswered) return;
      stopWaiting();
      // What the backend said last is on its way through the client's socket still.
      socket.end();
      stopWaiting = this.#deadlines.start(lastBytesMs, close);
    });
    this.#begun.set(request, (upstreamRequest) => {
      upstreamRequest.prependOnceListener('response', (answer) => {
        isAnswered = true;
        what.answered(answer.statusCode ?? 502);
        waitForBytes();
        // http-proxy writes whatever comes, whether the client takes it or not.
        answer.on('data', () => {
          if (!socket.writableNeedDrain) return;
          answer.pause();
          socket.once('drain', () => answer.resume());
        });
        answer.once('close', () => {
          if (!answer.complete) close();
        });
      });
      upstreamRequest.prependOnceListener('upgrade', () => {
        isUpgraded = true;
        what.answered(101);
        socket.removeListener('readable', notice);
        waitForBytes();
      });
    });
    const protocol = request.headers.upgrade ?? 'websocket';
    const sent: Record<string, string> = {};
    for (let i = 0; i + 1 < what.headers.length; i += 2) {
      const name = (what.headers[i] ?? '').toLowerCase();
      const value = what.headers[i + 1] ?? '';
      sent[name] = sent[name] === undefined ? value : `${sent[name]}${name === 'cookie' ? '; ' : ', '}${value}`;
    }
    // http-proxy lets nothing else through; what the client asked for goes out with the other headers.
    request.headers = { ...sent, connection: 'Upgrade', upgrade: 'websocket' };
    request.url = what.target;
    const headers = { connection: 'Upgrade', upgrade: protocol };
    this.#proxy.ws(
      request,
      socket,
      head,
      { target: { host: backend.host, port: backend.port }, agent: new OneConnection(upstream), headers },
      () => {
        if (!isUpgraded) refuse('backend-broke');
      },
    );
    return closed.promise;
  }

  /**
   * Calls `silent` once nothing came from the socket and nothing went to it for so long, unless what it answers is called
   * before.
   */
  #whenSilent(socket: Socket, idleMs: number, silent: () => void): () => void {
    let bytes = -1;
    let endMs = Infinity;
    const watched: Watched = {
      tick: (nowMs) => {
        const moved = socket.bytesRead + socket.bytesWritten;
        if (moved !== bytes) endMs = this.#deadlines.after(idleMs);
        bytes = moved;
        if (nowMs <= endMs) return;
        this.#deadlines.delete(watched);
        silent();
      },
    };
    this.#deadlines.add(watched);
    return () => this.#deadlines.delete(watched);
  }
}
