/**
 * The agent's own Node as a file that containers of the platform's parts can have mounted: what programs share as one file the
 * kernel has in memory once, some 40 MB on each host.
 */
import { link, mkdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { hasErrno, messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';

/** Where images of the platform have theirs. */
export const nodePath = '/usr/bin/node';

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
  const folder = join(options.stateDir, 'node');
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
