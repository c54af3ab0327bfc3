/** Breaks connections off in such a way that the other end cannot take what it has for all there is. */
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';

/** Node resets nothing but TCP, and throws for all else: what a connection over TLS runs over has to be known. */
const below = new WeakMap<Socket, Socket>();

export function runsOver(secure: Socket, tcp: Socket): void {
  below.set(secure, tcp);
}

/** The one with a reset; without where nothing is known of what is below, or its end is on its way already. */
export function reset(socket: Socket): void {
  const tcp = below.get(socket) ?? socket;
  if (tcp instanceof TLSSocket || isEnding(socket) || isEnding(tcp)) socket.destroy();
  else tcp.resetAndDestroy();
}

/** The kernel is being asked to end our side: libuv refuses to reset then, and Node would never close the descriptor. */
function isEnding({ writableEnded, writableFinished, writableLength }: Socket): boolean {
  return writableEnded && !writableFinished && writableLength === 0;
}
