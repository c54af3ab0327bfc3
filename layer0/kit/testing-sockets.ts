import type { EventEmitter } from 'node:events';

/**
 * Waits until it has closed, be it with an error: who is cut off while they still send is reset as often as not, and
 * `once(socket, 'close')` rejects with that, whoever else listens for errors. Call it before what ends the socket.
 */
export function closed(socket: EventEmitter & { readonly closed: boolean }): Promise<void> {
  if (socket.closed) return Promise.resolve();
  const { promise, resolve } = Promise.withResolvers<void>();
  socket.on('error', () => undefined);
  socket.once('close', () => resolve());
  return promise;
}
