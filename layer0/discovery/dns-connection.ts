/** A connection of DNS over TCP: questions are answered as fast as their client takes the answers, and no faster. */
import type { Socket } from 'node:net';
import { frameMessage, takeMessages } from './forward.ts';

/** Without a byte either way. */
const idleMs = 10_000;
/** Questions of one connection that are looked for at the same time. */
const maxOpen = 32;
/** Answers that the client has not taken: above this it is not listened to any more. */
const maxWaitingBytes = 256 * 1_024;

/** `respond`: undefined for what gets no answer, which ends the connection, as its failing does. */
export function serveConnection(socket: Socket, respond: (query: Buffer) => Promise<Buffer | undefined>): void {
  let received = Buffer.alloc(0);
  let questions: Buffer[] = [];
  let open = 0;

  const isFull = () => open >= maxOpen || socket.writableLength >= maxWaitingBytes;

  function answerNext(): void {
    while (!socket.destroyed && !isFull()) {
      const query = questions.shift();
      if (query === undefined) {
        socket.resume();
        return;
      }
      open += 1;
      void answer(query);
    }
    socket.pause();
  }

  async function answer(query: Buffer): Promise<void> {
    let reply: Buffer | undefined;
    try {
      reply = await respond(query);
    } catch {
      // Below: without an answer the client asks elsewhere, or anew.
    }
    open -= 1;
    if (reply === undefined) socket.destroy();
    else if (!socket.destroyed) {
      socket.write(frameMessage(reply));
      answerNext();
    }
  }

  socket.setTimeout(idleMs, () => socket.destroy());
  // A client that breaks off is its own affair.
  socket.on('error', () => socket.destroy());
  socket.on('drain', answerNext);
  socket.on('data', (chunk: Buffer) => {
    const { messages, rest } = takeMessages(Buffer.concat([received, chunk]));
    received = Buffer.from(rest);
    questions = [...questions, ...messages];
    answerNext();
  });
}
