/**
 * The agent's own Node as a file that containers of the platform's parts can have mounted: what programs share as one file the
 * kernel has in memory once, some 40 MB on each host.
 */
import { link, mkdir, readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { hasErrno, messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';

/** Where images of the platform have theirs. */
export const nodePath = '/usr/bin/node';

function folderIn(stateDir: string): string {
  return join(stateDir, 'node');
}

/** `id` tells those apart that are not the same to the byte: architecture, version, size. */
export type SharedNode = Readonly<{ id: string; file: string }>;

/**
 * A link in the state directory, so that a container starts again also after the version it came with was removed from the
 * disk. Nothing where the two are not on one file system, or links are not to be had: then each has its own.
 */
export async function shareNode(options: {
  stateDir: string;
  /** The program that runs this. */
  program: string;
  arch: string;
  version: string;
  log: Logger;
}): Promise<SharedNode | undefined> {
  const { program, arch, version, log } = options;
  const folder = folderIn(options.stateDir);
  const { size } = await stat(program);
  const id = `${arch}:${version}:${size}`;
  // Colons part source from target in commands of the engine's.
  const file = join(folder, id.replaceAll(':', '-'));
  const made = `${file}.new`;
  try {
    await mkdir(folder, { recursive: true, mode: 0o755 });
    await rm(made, { force: true });
    await link(program, made);
    // What was there under this name may be the same in another file: containers that run keep it, later ones share this.
    await rename(made, file);
    // Of two links to one file nothing was renamed.
    await rm(made, { force: true });
    return { id, file };
  } catch (error) {
    if (!hasErrno(error, 'EXDEV', 'EPERM', 'EACCES', 'EMLINK', 'ENOTSUP', 'EROFS')) throw error;
    log.info(
      { folder, program, reason: messageOf(error) },
      "containers have a Node of their own in memory, not the agent's",
    );
    return undefined;
  }
}

/**
 * Those of versions before, 110 MB each, that no container has mounted: one that has ended is started again with what it was made
 * with. What a version on the disk still has stays: it is the same file, and whoever goes back to it makes another link.
 */
export async function removeOldNodes(options: {
  stateDir: string;
  current: SharedNode | undefined;
  /** What containers have of the host, all of them. */
  mounted: ReadonlySet<string>;
  log: Logger;
}): Promise<void> {
  const { current, mounted, log } = options;
  const folder = folderIn(options.stateDir);
  for (const name of await namesIn(folder)) {
    const file = join(folder, name);
    if (file === current?.file || mounted.has(file)) continue;
    const { nlink, size } = await stat(file);
    if (nlink > 1) continue;
    await rm(file);
    log.info({ file, megabytes: Math.round(size / 1e6) }, 'removed the Node of a version before: nothing runs on it');
  }
}

async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    if (hasErrno(error, 'ENOENT')) return [];
    throw error;
  }
}
