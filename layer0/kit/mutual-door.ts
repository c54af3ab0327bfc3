/**
 * One port for those of the cluster, who show a certificate of it, and for plain HTTP: health checks, figures, and parts of a
 * version before. What each may do is for the server's gate to say. Which it is shows in the first byte: 22 begins a TLS
 * record, and no HTTP request.
 */
import { type ServerOptions, createServer } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { type Socket, createServer as createNetServer } from 'node:net';
import { TLSSocket } from 'node:tls';
import { messageOf } from './errors.ts';
import { type LiveIdentity, roleOf } from './identity.ts';
import type { Logger } from './log.ts';
import type { Doors } from './http-server.ts';

const tlsRecord = 22;

/** `limits` are the HTTP servers'; the time for a request's head begins with the connection. */
export function openMutualDoor(
  identity: LiveIdentity,
  limits: ServerOptions & { headersTimeout: number },
  log: Logger,
): Doors {
  const credentials = () => {
    const { trusted, certificate, privateKey } = identity.current;
    return { ca: trusted, cert: certificate, key: privateKey };
  };
  const plain = createServer(limits);
  const tls = createTlsServer({
    ...limits,
    ...credentials(),
    requestCert: true,
    rejectUnauthorized: true,
    minVersion: 'TLSv1.3',
    handshakeTimeout: limits.headersTimeout,
  });
  tls.on('tlsClientError', (error, socket) => {
    log.debug({ reason: messageOf(error), client: socket.remoteAddress }, 'a client without a certificate that counts');
  });
  const acceptor = createNetServer({ allowHalfOpen: true }, (socket) => {
    socket.on('error', (error) => log.debug({ err: error }, 'a connection broke'));
    const giveUp = () => socket.destroy();
    const deadline = setTimeout(giveUp, limits.headersTimeout);
    socket.once('close', () => clearTimeout(deadline));
    // Health checks only look whether the port accepts.
    socket.once('end', giveUp);
    socket.once('data', (first: Buffer) => {
      clearTimeout(deadline);
      socket.off('end', giveUp);
      socket.pause();
      socket.unshift(first);
      if (first[0] === tlsRecord) {
        // As a server of TLS makes them: what ends within the handshake would stay for ever.
        socket.allowHalfOpen = false;
        tls.emit('connection', socket);
        return;
      }
      plain.emit('connection', socket);
      socket.resume();
    });
  });
  // They watch over slow clients from when they listen on, and these never do.
  for (const server of [plain, tls]) server.emit('listening');
  const unfollow = identity.onChange(() => tls.setSecureContext({ ...credentials(), minVersion: 'TLSv1.3' }));
  return {
    acceptor,
    servers: [plain, tls],
    leave() {
      unfollow();
      for (const server of [plain, tls]) server.close();
    },
  };
}

/** Whose certificate the client of this connection has shown; undefined for a plain one. */
export function peerOf(socket: Socket): string | undefined {
  if (!(socket instanceof TLSSocket) || !socket.authorized) return undefined;
  return roleOf(socket.getPeerX509Certificate()?.subjectAltName);
}
