/** For how long a connection waits for somebody who takes it. */
import type { Socket } from 'node:net';
import type { Deadlines } from '../http1/deadlines.ts';

/** Of one connection. The time begins with the first wait. */
export class Patience implements Disposable {
  readonly #begin: () => { over: Promise<false>; stop: () => void };
  #waiting: { over: Promise<false>; stop: () => void } | undefined;

  constructor(socket: Socket, { waitMs, deadlines }: { waitMs: number; deadlines: Deadlines }) {
    this.#begin = () => {
      const { promise: over, resolve } = Promise.withResolvers<false>();
      const end = () => resolve(false);
      const cancel = deadlines.start(waitMs, end);
      socket.once('close', end);
      const stop = () => {
        cancel();
        socket.off('close', end);
      };
      return { over, stop };
    };
  }

  /** Whether that came in time, and the client is still there. */
  async until(event: Promise<void>): Promise<boolean> {
    this.#waiting ??= this.#begin();
    return Promise.race([event.then(() => true), this.#waiting.over]);
  }

  [Symbol.dispose](): void {
    this.#waiting?.stop();
  }
}
