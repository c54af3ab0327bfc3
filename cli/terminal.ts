/** Joins this terminal, or these pipes, to a job: stdin, size and signals go in, output and the exit code come out. */
import type { Duplex } from 'node:stream';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { encodeFrame, frameLimitBytes, type Frame, readFrames } from '@flynn/kit/frames';
import type { Io } from './io.ts';
import { sizeOf, visible, writeTo } from './output.ts';

type Send = (frame: Frame) => void;

/**
 * Answers the job's exit code; 1 once its output cannot be written any more, which ends the connection. Throws what the other side
 * reports, and `unavailable` when the connection ends before the job. In a terminal Ctrl-C is a byte like any other and reaches the
 * job by its terminal; without one it becomes a signal, and the third ends the connection.
 */
export async function joinJob(io: Io, socket: Duplex, options: { isTerminal: boolean }): Promise<number> {
  const send: Send = (frame) => {
    if (!socket.destroyed && socket.writable) socket.write(encodeFrame(frame));
  };
  // Whoever read on has left, or its disk is full: nobody hears what the job says next.
  let isUnheard = false;
  const onUnheard = (): void => {
    isUnheard = true;
    socket.destroy();
  };
  io.stdout.once('error', onUnheard);
  const stopInput = forwardInput(io, socket, send, options.isTerminal);
  const stopSignals = options.isTerminal ? forwardSize(io, send) : forwardSignals(io, send, () => socket.destroy());
  try {
    return await readOutput(io, socket);
  } catch (error) {
    if (isUnheard) return 1;
    throw error;
  } finally {
    io.stdout.off('error', onUnheard);
    stopSignals();
    stopInput();
    socket.destroy();
  }
}

async function readOutput(io: Io, socket: Duplex): Promise<number> {
  try {
    for await (const frame of readFrames(socket)) {
      if (frame.kind === 'stdout') await writeTo(io.stdout, frame.data);
      if (frame.kind === 'stderr') await writeTo(io.stderr, frame.data);
      if (frame.kind === 'error') throw new FlynnError(frame.code, frame.message);
      if (frame.kind === 'exit') {
        if (frame.error !== undefined) io.stderr.write(`flynn: ${visible(frame.error)}\n`);
        return frame.code;
      }
    }
  } catch (error) {
    // What the job's host or the protocol says stands; a broken connection is told like one that ended.
    if (error instanceof FlynnError && !hasCode(error, 'unavailable')) throw error;
    throw lostConnection(error);
  }
  throw lostConnection();
}

function lostConnection(cause?: unknown): FlynnError {
  const said = cause instanceof FlynnError ? ` (${cause.message})` : '';
  return new FlynnError(
    'unavailable',
    `the connection to the job ended before the job did${said}\n  "flynn ps" tells whether it still runs`,
    { cause },
  );
}

function forwardInput(io: Io, socket: Duplex, send: Send, isTerminal: boolean): () => void {
  const { stdin } = io;
  const onData = (chunk: Buffer | string): void => {
    const bytes = Buffer.from(chunk);
    for (let at = 0; at < bytes.length; at += frameLimitBytes) {
      send({ kind: 'stdin', data: bytes.subarray(at, at + frameLimitBytes) });
    }
    if (!socket.writableNeedDrain) return;
    stdin.pause();
    socket.once('drain', () => stdin.resume());
  };
  // A terminal that is gone reads as an error; for the job it is the end of its input either way.
  const onEnd = (): void => send({ kind: 'stdin-end' });
  if (isTerminal) stdin.setRawMode?.(true);
  stdin.on('data', onData);
  stdin.once('end', onEnd);
  stdin.once('error', onEnd);
  stdin.resume();
  return () => {
    stdin.off('data', onData);
    stdin.off('end', onEnd);
    stdin.off('error', onEnd);
    stdin.pause();
    if (isTerminal) stdin.setRawMode?.(false);
  };
}

function forwardSize(io: Io, send: Send): () => void {
  const tell = (): void => send({ kind: 'resize', ...sizeOf(io.stdout) });
  tell();
  return io.onSignal('SIGWINCH', tell);
}

/** The third is for this command: the job may not heed them, or the connection be dead. */
function forwardSignals(io: Io, send: Send, leave: () => void): () => void {
  let count = 0;
  const offs = (['SIGINT', 'SIGTERM'] as const).map((signal) =>
    io.onSignal(signal, () => {
      count += 1;
      if (count < 3) send({ kind: 'signal', signal });
      else leave();
    }),
  );
  return () => {
    for (const off of offs) off();
  };
}
