/** Carries bytes between a client and a backend, both ways, until both have ended. */
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { untilConnected } from '../backend.ts';
import type { Backend, Dialling } from '../backend.ts';
import { reset } from '../reset.ts';

/** As much as one read takes from the kernel. */
const readBytes = 64 * 1024;
const keepAliveMs = 30_000;
/** What the one side has not taken yet; with more, the other is not read from. */
const maxWaitingBytes = 256 * 1024;

/** A connection to a backend that may be read from as soon as somebody wants its bytes. */
export type BackendConnection = {
  readonly socket: Socket;
  /** From now on they go there. */
  into(client: Socket): void;
};

/**
 * Throws `unavailable`. What is read is written from one buffer that is used again at once: only what the client did not
 * take at once keeps its buffer, and the next read gets another.
 */
export async function dialBackend(backend: Backend, options: Dialling): Promise<BackendConnection> {
  let client: Socket | undefined;
  let buffer = Buffer.allocUnsafeSlow(readBytes);
  let isTaken = false;
  const socket = connect({
    host: backend.host,
    port: backend.port,
    // Half-close is the business of whoever talks over it: a git client ends its side first.
    allowHalfOpen: true,
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: keepAliveMs,
    onread: {
      buffer: () => {
        if (isTaken) buffer = Buffer.allocUnsafeSlow(readBytes);
        isTaken = false;
        return buffer;
      },
      callback: (length, bytes) => {
        if (client === undefined || client.destroyed) return false;
        client.write(bytes.subarray(0, length));
        isTaken = client.writableLength > 0;
        return client.writableLength <= maxWaitingBytes;
      },
    },
  });
  backend.own(socket);
  // Nobody wants its bytes yet, and its end is not to be missed.
  socket.pause();
  await untilConnected(socket, backend, options);
  return {
    socket,
    into(taker) {
      client = taker;
      taker.on('drain', () => socket.resume());
      socket.resume();
    },
  };
}

/**
 * INVARIANTS. One side ending its half leaves the other half open. A side that breaks off takes the other with it, by a
 * reset: an orderly end would make half of something look like all of it. `release` is called once, when all is over.
 */
export function carry(
  client: Socket,
  connection: BackendConnection,
  options: { first: readonly (Buffer | undefined)[]; idleMs: number | undefined; release: () => void },
): void {
  const { socket: backend } = connection;
  const { first, idleMs, release } = options;
  const areBothThrough = () => client.readableEnded && backend.readableEnded;
  client.once('close', (hadError) => {
    release();
    if (hadError || !areBothThrough()) reset(backend);
  });
  backend.once('close', (hadError) => {
    if (hadError || !areBothThrough()) reset(client);
  });
  // `close` follows and does the cleaning up.
  backend.on('error', () => {});
  if (client.destroyed) {
    release();
    backend.destroy();
    return;
  }
  for (const bytes of first) if (bytes !== undefined && bytes.length > 0) backend.write(bytes);
  if (idleMs !== undefined) cutWhenSilent(client, idleMs);
  client.on('data', (chunk: Buffer) => {
    backend.write(chunk);
    if (backend.writableLength > maxWaitingBytes) client.pause();
  });
  backend.on('drain', () => client.resume());
  // A socket that is paused tells its end all the same when nothing is left in it.
  if (client.readableEnded) backend.end();
  else client.once('end', () => backend.end());
  backend.once('end', () => client.end());
  client.resume();
  connection.into(client);
}

/**
 * The client is part of both directions, so its silence is that of both. After a standstill of this process there may be
 * bytes that nobody has read yet: they come before the verdict.
 */
function cutWhenSilent(client: Socket, idleMs: number): void {
  const moved = () => client.bytesRead + client.bytesWritten;
  client.setTimeout(idleMs).on('timeout', () => {
    const before = moved();
    setImmediate(() => {
      if (moved() === before) reset(client);
    });
  });
}
