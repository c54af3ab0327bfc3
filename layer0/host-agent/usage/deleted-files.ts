/**
 * Files that a container's processes have deleted and keep open: they take room until they are closed, and nobody who walks
 * through folders sees them.
 */
import { readFile, readdir, readlink, stat } from 'node:fs/promises';
import { type KernelFiles, machineFiles, processesFile } from './kernel-usage.ts';

/** A look at each costs microseconds: bounded, for a container of many connections. */
const mostDescriptors = 20_000;
const blockBytes = 512;

/**
 * Bytes of those in the container's own file system; those in its volumes count with nobody, as volumes do. What it has
 * mapped and closed is not found. 0 where `pid` is none of the container's any more.
 */
export async function deletedBytes(
  pid: number,
  containerId: string,
  files: KernelFiles = machineFiles,
): Promise<number> {
  const processes = processesFile(pid, containerId, files);
  if (processes === undefined) return 0;
  const root = await orNone(stat(`${files.proc}/${pid}/root/`));
  const pids = (await orNone(readFile(processes, 'utf8')))?.trim().split('\n') ?? [];
  const found = new Map<number, number>();
  let seen = 0;
  for (const one of pids) {
    if (seen >= mostDescriptors) break;
    const folder = `${files.proc}/${one}/fd`;
    const descriptors = ((await orNone(readdir(folder))) ?? []).slice(0, mostDescriptors - seen);
    seen += descriptors.length;
    const paths = descriptors.map((name) => `${folder}/${name}`);
    const targets = await Promise.all(paths.map((path) => orNone(readlink(path))));
    // Only these are asked for more: the disk of another may hang.
    for (const path of paths.filter((_path, index) => targets[index]?.endsWith(' (deleted)') === true)) {
      const file = await orNone(stat(path));
      if (file?.isFile() === true && file.nlink === 0 && file.dev === root?.dev) found.set(file.ino, file.blocks);
    }
  }
  return found.values().reduce((sum, blocks) => sum + blocks * blockBytes, 0);
}

/** Processes end, and files are closed, while they are looked at; what cannot be seen does not keep the rest from counting. */
async function orNone<T>(looking: Promise<T>): Promise<T | undefined> {
  return looking.catch(() => undefined);
}
