/** Joins a client to a process beside a job: frames in, frames out. The process ends with its client. */
import type { Duplex } from 'node:stream';
import { pause } from '@flynn/kit/clock';
import { asFlynnError, hasCode } from '@flynn/kit/errors';
import { encodeFrame, readFrames } from '@flynn/kit/frames';
import type { Frame } from '@flynn/kit/frames';
import type { Logger } from '@flynn/kit/log';
import { sendOutput } from './attach.ts';
import type { ExtraProcess } from '../engine/engine.ts';

const pingMs = 15_000;
/** A process that outlives its client this long is killed. */
const graceMs = 10_000;

type Joined = {
  beside: ExtraProcess;
  tty: boolean;
  size: { columns: number; rows: number } | undefined;
  log: Logger;
};

export async function joinProcess({ beside, tty, size, log }: Joined, socket: Duplex): Promise<void> {
  const leaving = new AbortController();
  socket.once('close', () => leaving.abort());
  socket.on('error', () => leaving.abort());
  const pings = setInterval(() => void (socket.writable && socket.write(encodeFrame({ kind: 'ping' }))), pingMs);
  const ended = new AbortController();
  // Output that nobody reads any more must not keep the loop below from seeing that the client is gone.
  leaving.signal.addEventListener('abort', () => beside.close(), { once: true });
  try {
    if (size !== undefined && tty) await beside.resize(size).catch(ignoreEnded);
    const reading = readClient(beside, tty, socket)
      .catch((error: unknown) => log.debug({ err: error }, 'the client of a process broke off'))
      .finally(() => leaving.abort());
    for await (const chunk of beside.output) await sendOutput(socket, chunk, leaving.signal);
    if (leaving.signal.aborted) {
      await reading;
      return;
    }
    const code = await beside.exitCode();
    ended.abort();
    socket.end(encodeFrame({ kind: 'exit', code }));
  } catch (error) {
    if (leaving.signal.aborted) return;
    const { code, message } = asFlynnError(error);
    socket.end(encodeFrame({ kind: 'error', code, message }));
  } finally {
    clearInterval(pings);
    if (!ended.signal.aborted) {
      await endProcess(beside, tty).catch((error: unknown) =>
        log.warn({ err: error }, 'a process outlived its client'),
      );
    }
  }
}

/** As a terminal that closes does; what does not heed that is killed. */
async function endProcess(beside: ExtraProcess, tty: boolean): Promise<void> {
  await beside.signal(tty ? 'SIGHUP' : 'SIGTERM').catch(ignoreEnded);
  const late = new AbortController();
  const patience = pause(graceMs, late.signal).then(() => undefined);
  await Promise.race([beside.exitCode().catch(ignoreEnded), patience]);
  late.abort();
  await beside.signal('SIGKILL').catch(ignoreEnded);
}

async function readClient(beside: ExtraProcess, tty: boolean, socket: Duplex): Promise<void> {
  for await (const frame of readFrames(socket)) await takeFrame(frame, beside, tty).catch(ignoreEnded);
}

async function takeFrame(frame: Frame, beside: ExtraProcess, tty: boolean): Promise<void> {
  if (frame.kind === 'stdin') await beside.write(frame.data);
  if (frame.kind === 'stdin-end') beside.endInput();
  if (frame.kind === 'resize' && tty) await beside.resize(frame);
  if (frame.kind === 'signal') await beside.signal(frame.signal);
}

/** The process may end at any moment; its exit is on its way. */
function ignoreEnded(error: unknown): undefined {
  if (!hasCode(error, 'conflict', 'not_found', 'unavailable', 'internal', 'timeout')) throw error;
}
