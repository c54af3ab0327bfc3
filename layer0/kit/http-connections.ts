/** Requests over connections that are kept for the next one. */
import http from 'node:http';
import https from 'node:https';
import type { Socket } from 'node:net';
import { type Duplex, Readable, finished } from 'node:stream';
import type { ConnectionOptions } from 'node:tls';
import { abortError } from './clock.ts';
import { FlynnError } from './errors.ts';
import { lookup } from './lookup.ts';

/** An idle connection; a server that keeps it for less says so, and is believed. */
const keptMs = 30_000;
/** What is silent for longer is asked by the system whether it is still there. */
const probedMs = 60_000;

export type RequestOptions = Readonly<{
  method: string;
  headers: Readonly<Record<string, string>>;
  /** A Readable is not begun before a connection stands, and destroyed once it is of no use any more. */
  body?: Readable | Uint8Array | string | undefined;
  /** Ends the request, and the reading of its answer. */
  signal: AbortSignal;
}>;

/**
 * Connections to any number of servers, each for one request at a time, with as many to a server as it takes. Idle ones end after
 * 30 s, and do not hold the process.
 */
export class HttpConnections {
  readonly #opening = new WeakSet<Duplex>();
  readonly #plain: http.Agent;
  readonly #secure: https.Agent;
  #isClosed = false;

  /**
   * `connectMs`: for a connection to stand, its TLS included. `tls`: asked at each connection over https. `resumesSessions`: not
   * where who the other side is has to be looked at each time.
   */
  constructor(options: { connectMs: number; tls: () => ConnectionOptions; resumesSessions: boolean }) {
    const opened = (socket: Duplex | null | undefined, event: 'connect' | 'secureConnect') => {
      if (socket) this.#watchOpening(socket, event, options.connectMs);
      return socket;
    };
    const common = { keepAlive: true, keepAliveMsecs: probedMs, timeout: keptMs, lookup };
    this.#plain = new (class extends http.Agent {
      override createConnection(...[to, done]: Parameters<http.Agent['createConnection']>) {
        return opened(super.createConnection(to, done), 'connect');
      }
    })(common);
    this.#secure = new (class extends https.Agent {
      override createConnection(...[to, done]: Parameters<https.Agent['createConnection']>) {
        return opened(super.createConnection({ ...to, ...options.tls() }, done), 'secureConnect');
      }
    })(options.resumesSessions ? common : { ...common, maxCachedSessions: 0 });
  }

  /** Resolves with the head of the answer, whose body has to be read or destroyed. */
  async request(url: URL, options: RequestOptions): Promise<http.IncomingMessage> {
    if (this.#isClosed) throw new FlynnError('unavailable', 'this client was closed');
    const { method, headers, body, signal } = options;
    if (signal.aborted) throw abortError(signal);
    const { promise, resolve, reject } = Promise.withResolvers<http.IncomingMessage>();
    const asked = { method, headers };
    const request =
      url.protocol === 'https:'
        ? https.request(url, { ...asked, agent: this.#secure })
        : http.request(url, { ...asked, agent: this.#plain });
    let answer: http.IncomingMessage | undefined;
    const abort = () => {
      const error = abortError(signal);
      // First, and though all of it may have come: what a request that is destroyed has of it ends as if it were whole.
      answer?.destroy(error);
      request.destroy(error);
    };
    const release = () => signal.removeEventListener('abort', abort);
    signal.addEventListener('abort', abort, { once: true });
    // Stays: what goes wrong after the head is told to who reads the body, too.
    request.on('error', reject);
    request.once('close', () => {
      if (answer === undefined) release();
      reject(new FlynnError('unavailable', 'the connection ended without an answer'));
    });
    request.once('response', (response) => {
      answer = response;
      response.once('close', release);
      response.once('end', () => {
        release();
        // Who has answered wants no more of what is still being sent.
        if (!request.writableFinished) request.destroy();
      });
      resolve(response);
    });
    if (body instanceof Readable) this.#sendOnceOpen(body, request);
    else request.end(body);
    return promise;
  }

  /** What is still under way ends with an error, as what is asked from now on does. */
  close(): void {
    this.#isClosed = true;
    this.#plain.destroy();
    this.#secure.destroy();
  }

  #watchOpening(socket: Duplex, event: 'connect' | 'secureConnect', withinMs: number): void {
    this.#opening.add(socket);
    // For its life: Node lets go of one a moment before its last error may come.
    socket.on('error', () => undefined);
    // After a standstill it may have come about, and been heard of just behind the timer.
    const late = () => setImmediate(() => this.#opening.has(socket) && socket.destroy(connectTimeout(withinMs)));
    const timer = setTimeout(late, withinMs);
    const settled = () => {
      clearTimeout(timer);
      this.#opening.delete(socket);
    };
    socket.once(event, settled);
    socket.once('close', settled);
  }

  #sendOnceOpen(body: Readable, request: http.ClientRequest): void {
    const forget = finished(body, { writable: false }, (error) => {
      if (error) request.destroy(error);
    });
    request.once('close', forget);
    const send = () => {
      request.once('close', () => body.destroy());
      body.pipe(request);
    };
    request.once('socket', (socket: Socket) => {
      if (this.#opening.has(socket)) socket.once(request.protocol === 'https:' ? 'secureConnect' : 'connect', send);
      else send();
    });
  }
}

/** As the system's own, which takes minutes. */
function connectTimeout(ms: number): Error {
  return Object.assign(new Error(`no connection within ${ms / 1000} s`), { code: 'ETIMEDOUT', syscall: 'connect' });
}
