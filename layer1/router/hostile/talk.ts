/** A client that says bytes as they are. */
import { connect } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';

export type Talk = {
  /** Everything that was answered, as latin1. */
  answer: string;
  /** Whether the other side ended the connection, or nothing more came from it. */
  isClosed: boolean;
};

/** Says it in these pieces, and listens until the connection is closed or nothing has come for `quietMs`. */
export async function talk(port: number, pieces: readonly string[], options: { quietMs: number }): Promise<Talk> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  let answer = '';
  const quiet = Promise.withResolvers<void>();
  socket.setTimeout(options.quietMs, () => quiet.resolve());
  socket.on('data', (chunk: Buffer) => (answer += chunk.toString('latin1')));
  // A refusal may end the connection while we are still talking.
  socket.on('error', () => socket.destroy());
  const closed = new Promise((resolve) => socket.once('close', resolve));
  for (const [index, piece] of pieces.entries()) {
    if (index > 0) await turn();
    if (socket.destroyed) break;
    socket.write(piece, 'latin1');
  }
  await Promise.race([closed, quiet.promise]);
  const isClosed = socket.destroyed;
  socket.destroy();
  return { answer, isClosed };
}
