/** The HTTPS port: ends TLS, and hands what is inside to a front. */
import { randomBytes } from 'node:crypto';
import { createServer as createNetServer } from 'node:net';
import type { Server as NetServer, Socket } from 'node:net';
import { createSecureContext, createServer as createTlsServer } from 'node:tls';
import type { SecureContextOptions, Server as TlsServer, TLSSocket } from 'node:tls';
import { messageOf } from '@flynn/kit/errors';
import { listenOn } from '@flynn/kit/listening';
import type { Logger } from '@flynn/kit/log';
import type { Credentials } from '@flynn/kit/tls';
import { Arrivals, stopAccepting } from '../closing.ts';
import type { Client, Front } from '../exchange.ts';
import type { Deadlines } from '../http1/deadlines.ts';
import type { Accept } from '../proxy-protocol/acceptance.ts';
import { runsOver } from '../reset.ts';
import type { Certificates } from './certificates.ts';
import { challengeProtocol } from './challenges.ts';
import type { Challenges } from './challenges.ts';
import { readClientHello } from './client-hello.ts';
import { lookAtFirstBytes } from './first-bytes.ts';

/** Of a client: some 30 KB each until then, and a public key operation. */
const handshakeMs = 10_000;
/** More at a time are cut, the oldest first: those that mean it take a second. */
const maxHandshakes = 2_000;
const sessionSeconds = 3_600;
/** The longest that a timer of Node's takes. Its own for handshakes would take a standstill of the process for the client's. */
const never = 2 ** 31 - 1;

export type TlsCounts = { handshakes: number; failures: number; unknownNames: number };

type Pending = { readonly socket: Socket; readonly client: Client; readonly stopWaiting: () => void };

export type TlsListenerOptions = {
  certificates: Pick<Certificates, 'contextFor'>;
  challenges: Pick<Challenges, 'hasCertificates' | 'contextFor'>;
  accept: Accept;
  profile: SecureContextOptions;
  /** Shown for names nobody has a certificate for, and to clients that name none. */
  fallback: Credentials;
  /** By the protocol that was agreed on; the order is ours where the client leaves it open. */
  fronts: Readonly<Record<string, Pick<Front, 'take'>>> & { readonly 'http/1.1': Pick<Front, 'take'> };
  deadlines: Deadlines;
  log: Logger;
};

/**
 * INVARIANTS. A connection has its handshake's time, however slowly it trickles, and there are at most so many at once.
 * A front gets a connection only after its handshake. What has no certificate is served with the fallback's.
 */
export class TlsListener implements AsyncDisposable {
  readonly #options: TlsListenerOptions;
  readonly #acceptor: NetServer;
  readonly #tls: TlsServer;
  /** Speaks with authorities that want to see that a name leads here. */
  readonly #challenged: TlsServer;
  /** By the two ends' addresses: what the TLS server tells of a connection is another object than what it was given. */
  readonly #pending = new Map<string, Pending>();
  readonly #arrivals = new Arrivals();
  readonly counts: TlsCounts = { handshakes: 0, failures: 0, unknownNames: 0 };

  constructor(options: TlsListenerOptions) {
    this.#options = options;
    const { certificate: cert, privateKey: key } = options.fallback;
    const fallback = createSecureContext({ ...options.profile, cert, key });
    this.#tls = createTlsServer({
      ...options.profile,
      cert,
      key,
      ALPNProtocols: Object.keys(options.fronts),
      SNICallback: (name, answer) => {
        const context = options.certificates.contextFor(name);
        if (context === undefined) this.counts.unknownNames += 1;
        answer(null, context ?? fallback);
      },
      sessionTimeout: sessionSeconds,
      handshakeTimeout: never,
    });
    // Until the controller has told the one that all routers have.
    this.resumeWith(randomBytes(48));
    this.#tls.on('secureConnection', (socket) => this.#hand(socket));
    this.#tls.on('tlsClientError', (error, socket) => {
      this.counts.failures += 1;
      options.log.debug({ reason: messageOf(error), client: socket.remoteAddress }, 'a TLS handshake failed');
    });
    this.#challenged = createTlsServer({
      ALPNProtocols: [challengeProtocol],
      SNICallback: (name, answer) => answer(null, options.challenges.contextFor(name)),
      handshakeTimeout: never,
    });
    this.#challenged.on('secureConnection', (socket) => {
      this.#settle(endsOf(socket));
      // There is nothing to be said: the certificate was it.
      socket.destroySoon();
    });
    this.#acceptor = createNetServer({ allowHalfOpen: true, noDelay: true, keepAlive: true }, (socket) =>
      this.#accept(socket),
    );
  }

  /** Resolves with the port. */
  async listen(options: { host: string; port: number }): Promise<number> {
    const { log } = this.#options;
    return listenOn(this.#acceptor, { name: 'router', at: { ...options, reusePort: true }, log });
  }

  /** Sessions begun with another key are begun anew. */
  resumeWith(key: Buffer): void {
    this.#tls.setTicketKeys(key);
  }

  /** Accepts no more; handshakes under way go on, and their connections to the front, which is told of the end itself. */
  async stopListening(): Promise<void> {
    await stopAccepting(this.#acceptor);
  }

  /** Resolves when the fronts have all whose handshake was under way, at the deadline at the latest. */
  async settled(options: { deadlineMs: number }): Promise<void> {
    await this.#arrivals.settled(options);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stopListening();
    for (const { socket } of this.#pending.values()) socket.destroy();
  }

  #accept(socket: Socket): void {
    this.#arrivals.add(socket);
    socket.on('error', (error) => this.#options.log.debug({ err: error }, 'a client broke off before TLS'));
    this.#options.accept(socket, true, (client, early) => {
      if (early !== undefined) socket.unshift(early);
      this.#begin(socket, client);
    });
  }

  #begin(socket: Socket, client: Client): void {
    if (!this.#options.challenges.hasCertificates) {
      this.#secure(socket, client, this.#tls);
      return;
    }
    lookAtFirstBytes(socket, {
      look: readClientHello,
      timeoutMs: handshakeMs,
      deadlines: this.#options.deadlines,
      done: (hello, bytes) => {
        socket.unshift(bytes);
        const isChallenge = hello !== 'none' && hello.protocols.includes(challengeProtocol);
        this.#secure(socket, client, isChallenge ? this.#challenged : this.#tls);
      },
    });
  }

  #secure(socket: Socket, client: Client, server: TlsServer): void {
    const key = endsOf(socket);
    // Its TLS server tells of the failure.
    const stopWaiting = this.#options.deadlines.start(handshakeMs, () => socket.destroy());
    this.#pending.set(key, { socket, client, stopWaiting });
    socket.once('close', () => {
      if (this.#pending.get(key)?.socket === socket) this.#settle(key);
    });
    if (this.#pending.size > maxHandshakes) {
      for (const oldest of this.#pending.values().take(1)) oldest.socket.destroy();
    }
    server.emit('connection', socket);
  }

  #settle(key: string): Pending | undefined {
    const pending = this.#pending.get(key);
    pending?.stopWaiting();
    this.#pending.delete(key);
    return pending;
  }

  #hand(socket: TLSSocket): void {
    const pending = this.#settle(endsOf(socket));
    if (pending === undefined) {
      socket.destroy();
      return;
    }
    this.counts.handshakes += 1;
    this.#arrivals.delete(pending.socket);
    runsOver(socket, pending.socket);
    const { fronts } = this.#options;
    const front = typeof socket.alpnProtocol === 'string' ? fronts[socket.alpnProtocol] : undefined;
    (front ?? fronts['http/1.1']).take(socket, pending.client);
  }
}

function endsOf({ remoteAddress, remotePort, localAddress, localPort }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`;
}
