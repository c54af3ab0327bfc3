/**
 * One command at a time changes a host. The kernel keeps the lock (flock(1), of Debian's essential packages), and lets go of it
 * with the last program that holds it: one that died is in nobody's way.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { ftruncateSync, writeSync } from 'node:fs';
import { type FileHandle, mkdir, open, readlink, realpath, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { FlynnError, hasErrno } from '@flynn/kit/errors';
import { z } from 'zod';

/** Where a program that is given the lock by another one finds it. */
const inheritedFd = 3;

const holderSchema = z.object({ pid: z.int(), doing: z.string(), since: z.iso.datetime() });
type Holder = z.output<typeof holderSchema>;

/** `fd`: for programs that do a part of the work, as the fourth of their `stdio`. They hold it as long as they run, too. */
export type HostLock = Readonly<{ fd: number }>;

/** Beside the state directory, which is itself taken away under it. */
export function lockFileOf(stateDir: string): string {
  return `${stateDir.replace(/\/+$/, '')}.lock`;
}

/**
 * `conflict` at once while another command has it, with who that is, since when, and what to do. A program that got the lock
 * from the one that started it goes on under that.
 */
export async function withHostLock<T>(
  stateDir: string,
  doing: string,
  task: (lock: HostLock) => Promise<T>,
): Promise<T> {
  const file = lockFileOf(stateDir);
  const holder = { pid: process.pid, doing, since: new Date().toISOString() };
  if (await isInherited(file)) {
    tell(inheritedFd, holder);
    return await task({ fd: inheritedFd });
  }
  const held = await take(file);
  try {
    tell(held.fd, holder);
    return await task({ fd: held.fd });
  } finally {
    // While it is held: nobody else's file can be in this place.
    await rm(file, { force: true });
    await held.close();
  }
}

async function isInherited(file: string): Promise<boolean> {
  try {
    return (await readlink(`/proc/self/fd/${inheritedFd}`)) === (await resolved(file));
  } catch (error) {
    if (hasErrno(error, 'ENOENT')) return false;
    throw error;
  }
}

async function resolved(file: string): Promise<string> {
  return join(await realpath(dirname(file)), basename(file));
}

async function take(file: string): Promise<FileHandle> {
  for (;;) {
    const handle = await openFile(file);
    try {
      if (!(await lock(handle))) throw inTheWay(await read(handle));
      if (await isAt(file, handle)) return handle;
    } catch (error) {
      await handle.close();
      throw error;
    }
    // Its holder took the file away between the two looks: the lock is of another one by now.
    await handle.close();
  }
}

async function openFile(file: string): Promise<FileHandle> {
  try {
    await mkdir(dirname(file), { recursive: true });
    return await open(file, 'a+', 0o600);
  } catch (error) {
    if (hasErrno(error, 'EACCES', 'EPERM')) {
      throw new FlynnError('denied', 'this needs root: run it again with sudo', { cause: error });
    }
    throw error;
  }
}

/** Of the open file, which outlives the program that is asked for it. */
async function lock(handle: FileHandle): Promise<boolean> {
  const child = spawn('flock', ['--exclusive', '--nonblock', '3'], { stdio: ['ignore', 'ignore', 'pipe', handle.fd] });
  let said = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  const [code] = await once(child, 'close').catch((error: unknown) => {
    throw new FlynnError('internal', 'flock, of the package util-linux, could not be run', { cause: error });
  });
  if (code === 0) return true;
  if (code === 1 && said === '') return false;
  throw new FlynnError('internal', `flock failed with ${code}: ${said.trim()}`);
}

async function isAt(file: string, handle: FileHandle): Promise<boolean> {
  try {
    const [there, own] = [await stat(file), await handle.stat()];
    return there.ino === own.ino && there.dev === own.dev;
  } catch (error) {
    if (hasErrno(error, 'ENOENT')) return false;
    throw error;
  }
}

/**
 * Whoever holds it now is the one to ask, and to end. On a full disk nobody is told, and what is done here may be what makes
 * room.
 */
function tell(fd: number, holder: Holder): void {
  ftruncateSync(fd);
  try {
    writeSync(fd, `${JSON.stringify(holder)}\n`);
  } catch (error) {
    if (!hasErrno(error, 'ENOSPC', 'EDQUOT')) throw error;
    ftruncateSync(fd);
  }
}

/** Nothing where it has only just begun, or could not say. */
async function read(handle: FileHandle): Promise<Holder | undefined> {
  const { buffer, bytesRead } = await handle.read(Buffer.alloc(4_096), 0, 4_096, 0);
  try {
    return holderSchema.parse(JSON.parse(buffer.toString('utf8', 0, bytesRead)));
  } catch {
    return undefined;
  }
}

function inTheWay(holder: Holder | undefined): FlynnError {
  const who =
    holder === undefined
      ? 'another command has just begun, or had no room on the disk to say who it is'
      : `${holder.doing} is at work here since ${holder.since} (process ${holder.pid})`;
  const end = holder === undefined ? '' : `, or end it (kill ${holder.pid}; it may be interrupted anywhere)`;
  return new FlynnError(
    'conflict',
    `${who}, and one command at a time changes a host: wait for its end${end}, then run this one again. Nothing was changed`,
  );
}
