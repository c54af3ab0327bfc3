/** A program that a datastore's image has, run beside a member: what it says, or its input and output as they come. */
import type { Duplex } from 'node:stream';
import { FlynnError } from '@flynn/kit/errors';
import { encodeFrame, frameLimitBytes, readFrames } from '@flynn/kit/frames';
import type { Frame } from '@flynn/kit/frames';
import type { Logger } from '@flynn/kit/log';
import { joinOneWay } from '../jobs/attach.ts';
import type { HostClients } from '../hosts/clients.ts';

/** What it says is an answer, not a file. */
const mostBytes = 4 * 1024 ** 2;

type Place = Readonly<{ hostId: string; id: string }>;

/** Its standard output; `input` is short. Throws what it says on the other one where it fails, and what keeps it from being run. */
export async function outputOf(
  hosts: Pick<HostClients, 'exec'>,
  { hostId, id }: Place,
  { command, input = '' }: Readonly<{ command: readonly string[]; input?: string }>,
  signal: AbortSignal,
): Promise<string> {
  const socket = await hosts.exec(hostId, id, { command }, signal);
  const onAbort = (): void => void socket.destroy();
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    if (input !== '') socket.write(encodeFrame({ kind: 'stdin', data: Buffer.from(input) }));
    socket.write(encodeFrame({ kind: 'stdin-end' }));
    return await readOutput(socket);
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    signal.removeEventListener('abort', onAbort);
    socket.destroy();
  }
}

async function readOutput(socket: Duplex): Promise<string> {
  const said: Record<'stdout' | 'stderr', Buffer[]> = { stdout: [], stderr: [] };
  let size = 0;
  for await (const frame of readFrames(socket)) {
    if (frame.kind === 'error') throw new FlynnError(frame.code, frame.message);
    if (frame.kind === 'exit') {
      if (frame.code === 0) return textOf(said.stdout);
      // Asked again it would say the same.
      throw new FlynnError('conflict', textOf(said.stderr).trim() || `its program ended with ${frame.code}`);
    }
    if (frame.kind !== 'stdout' && frame.kind !== 'stderr') continue;
    size += frame.data.length;
    if (size > mostBytes) throw new FlynnError('internal', 'its program says more than an answer holds');
    said[frame.kind].push(frame.data);
  }
  throw new FlynnError('unavailable', 'the connection to its host ended before it had answered');
}

function textOf(chunks: readonly Buffer[]): string {
  return Buffer.concat(chunks).toString();
}

/**
 * Joins a client to a program that has to know whether its input is whole: each piece goes behind a line with its size, and
 * the end, which a connection that breaks does not have, is a line "0".
 */
export function joinPieces(client: Duplex, host: Duplex, log: Logger): void {
  joinOneWay(host, client);
  client.on('error', () => client.destroy());
  sendPieces(client, host).catch((error: unknown) => {
    log.debug({ err: error }, 'what was to be imported broke off');
    host.destroy();
    client.destroy();
  });
}

async function sendPieces(client: Duplex, host: Duplex): Promise<void> {
  const send = async (frame: Frame): Promise<void> => {
    if (!host.destroyed && !host.write(encodeFrame(frame))) await taken(host);
  };
  const sendText = (text: string) => send({ kind: 'stdin', data: Buffer.from(text) });
  for await (const frame of readFrames(client)) {
    if (frame.kind === 'stdin') {
      // A size that is zero would be the end.
      if (frame.data.length === 0) continue;
      await sendText(`${frame.data.length}\n`);
      for (let at = 0; at < frame.data.length; at += frameLimitBytes)
        await send({ kind: 'stdin', data: frame.data.subarray(at, at + frameLimitBytes) });
    } else if (frame.kind === 'stdin-end') {
      await sendText('0\n');
      await send({ kind: 'stdin-end' });
    } else if (frame.kind === 'signal') await send(frame);
  }
  // Who is gone wants it no more.
  host.destroy();
}

/** Once it takes more, or nothing any more. */
async function taken(socket: Duplex): Promise<void> {
  const ready = Promise.withResolvers<void>();
  const events = ['drain', 'close', 'error'] as const;
  const onReady = (): void => ready.resolve();
  for (const event of events) socket.once(event, onReady);
  await ready.promise;
  for (const event of events) socket.off(event, onReady);
}
