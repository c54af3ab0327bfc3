/** A disk of a size for one host's engine: a file with a file system, mounted where the engine keeps its data. */
import { existsSync } from 'node:fs';
import { mkdir, readFile, rm, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { runProgram } from '../machine/program.ts';

const timeoutMs = 60_000;
const fileOf = (directory: string): string => join(directory, 'disk.ext4');
const fillerOf = (directory: string): string => join(dataOf(directory), 'filler');

/** Where the engine of the host with this directory keeps its data, on whatever disk. */
export const dataOf = (directory: string): string => join(directory, 'data');

/** Takes of this machine's disk only what is written. */
export async function createDisk(directory: string, bytes: number): Promise<void> {
  await runProgram('truncate', ['-s', String(bytes), fileOf(directory)], { timeoutMs });
  await runProgram('mkfs.ext4', ['-q', '-m', '0', fileOf(directory)], { timeoutMs });
}

/** For a host without a disk of its own there is nothing to do. */
export async function mountDisk(directory: string): Promise<void> {
  if (!existsSync(fileOf(directory))) return;
  const data = dataOf(directory);
  const mounts = (await readFile('/proc/self/mountinfo', 'utf8')).split('\n').map((line) => line.split(' ')[4]);
  if (mounts.includes(data)) return;
  await mkdir(data, { recursive: true });
  await runProgram('mount', ['-o', 'loop', fileOf(directory), data], { timeoutMs });
}

/** Up to the last block. */
export async function fillDisk(directory: string): Promise<void> {
  const { bavail, bsize } = await statfs(dataOf(directory));
  await runProgram('fallocate', ['-l', String(bavail * bsize - 1024 * 1024), fillerOf(directory)], { timeoutMs });
  // The last megabyte, whatever the file system needed for the file itself.
  await runProgram('sh', ['-c', 'dd if=/dev/zero bs=1k >>"$1" 2>/dev/null; true', 'sh', fillerOf(directory)], {
    timeoutMs,
  });
}

export async function freeDisk(directory: string): Promise<void> {
  await rm(fillerOf(directory), { force: true });
}
