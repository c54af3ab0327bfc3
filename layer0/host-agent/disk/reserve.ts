/**
 * Room put aside on the disk of the agent's state: a host whose disk was full when it lost power needs some to come back,
 * for etcd and for the agent itself, before anything can be cleaned up. It is given up at the agent's start, and made again
 * when there is room.
 */
import { randomFillSync } from 'node:crypto';
import { open, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { pause } from '@flynn/kit/clock';
import { hasErrno, messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { diskOf } from './use.ts';

const reserveBytes = 64 * 2 ** 20;
/** Percent of the disk in use. What is given up at one mark is not made again right below it. */
const marks = { full: 98, roomy: 90 } as const;
/** All else that a start has to write comes first. */
const lookEveryMs = 60_000;
const pieceBytes = 2 ** 20;
/** Between two pieces: others write to this disk, and wait for it. */
const pieceEveryMs = 50;

export type ReserveOptions = Readonly<{
  stateDir: string;
  log: Logger;
  usedPercent?: () => Promise<number>;
  bytes?: number;
  lookEveryMs?: number;
}>;

const fileOf = (stateDir: string): string => join(stateDir, 'reserve');

/** Whether there was one and the disk was full. Nothing that goes wrong keeps the agent from starting. */
export async function giveUpReserve({
  stateDir,
  log,
  usedPercent = usedOf(stateDir),
}: ReserveOptions): Promise<boolean> {
  try {
    const before = await usedPercent();
    if (before < marks.full || (await sizeOf(fileOf(stateDir))) === undefined) return false;
    await rm(fileOf(stateDir));
    log.warn(`the disk of ${stateDir} is ${before} % full: giving up what was put aside for that, to come up at all`);
    return true;
  } catch (error) {
    log.warn(`could not look after the room that is put aside in ${stateDir}: ${messageOf(error)}`);
    return false;
  }
}

/** Resolves when the signal aborts. */
export async function keepReserve(options: ReserveOptions, signal: AbortSignal): Promise<void> {
  const { stateDir, log, usedPercent = usedOf(stateDir), bytes = reserveBytes } = options;
  for (;;) {
    await pause(options.lookEveryMs ?? lookEveryMs, signal);
    if (signal.aborted) return;
    try {
      if ((await sizeOf(fileOf(stateDir))) === bytes || (await usedPercent()) >= marks.roomy) continue;
      await putAside(fileOf(stateDir), bytes, signal);
    } catch (error) {
      if (!signal.aborted) log.warn(`could not put room aside in ${stateDir}: ${messageOf(error)}`);
    }
  }
}

/** Of bytes that no file system makes smaller; whole or not at all. */
async function putAside(file: string, bytes: number, signal: AbortSignal): Promise<void> {
  const partial = `${file}.new`;
  try {
    await using handle = await open(partial, 'w', 0o600);
    for (let written = 0; written < bytes; written += pieceBytes) {
      signal.throwIfAborted();
      await handle.writeFile(randomFillSync(Buffer.alloc(Math.min(pieceBytes, bytes - written))));
      await pause(pieceEveryMs, signal);
    }
    await rename(partial, file);
  } finally {
    await rm(partial, { force: true });
  }
}

function usedOf(stateDir: string): () => Promise<number> {
  return async () => (await diskOf(stateDir)).usedPercent;
}

async function sizeOf(file: string): Promise<number | undefined> {
  try {
    return (await stat(file)).size;
  } catch (error) {
    if (hasErrno(error, 'ENOENT')) return undefined;
    throw error;
  }
}
