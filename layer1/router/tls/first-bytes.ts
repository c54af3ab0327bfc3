/** Looks at what a client says first, before it is decided who talks to it. */
import type { Socket } from 'node:net';
import type { Deadlines } from '../http1/deadlines.ts';

/** What was made of the bytes so far: `more` waits for others. */
type Look<T> = (bytes: Buffer) => T | 'more';

/**
 * Calls `done` once: with what `look` made of the first bytes, and all that was read. The socket is left paused, nothing
 * is lost and nothing is put back. A client that ends, breaks off or takes longer than `timeoutMs` is destroyed, and `done`
 * is not called.
 */
export function lookAtFirstBytes<T>(
  socket: Socket,
  options: { look: Look<T>; timeoutMs: number; deadlines: Deadlines; done: (found: T, bytes: Buffer) => void },
): void {
  const { look, timeoutMs, deadlines, done } = options;
  let bytes: Buffer = Buffer.alloc(0);
  const giveUp = () => socket.destroy();
  const stopWaiting = deadlines.start(timeoutMs, giveUp);
  const leave = () => {
    stopWaiting();
    socket.off('data', onData).off('end', giveUp).off('error', giveUp).off('close', leave);
  };
  const onData = (chunk: Buffer) => {
    bytes = bytes.length === 0 ? chunk : Buffer.concat([bytes, chunk]);
    const found = look(bytes);
    if (found === 'more') return;
    leave();
    socket.pause();
    done(found, bytes);
  };
  socket.on('data', onData).on('end', giveUp).on('error', giveUp).on('close', leave);
  socket.resume();
}
