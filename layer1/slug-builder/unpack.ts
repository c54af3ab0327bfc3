/** Unpacks an archive of somebody's repository, and nothing outside the folder it is for. */
import { createWriteStream } from 'node:fs';
import { chmod, mkdir, rm, symlink } from 'node:fs/promises';
import { dirname, join, posix } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { FlynnError } from '@flynn/kit/errors';
import { extract } from 'tar-stream';

/** `invalid` for an entry that leads outside, by its name or through a link of the archive, or is no file at all. */
export async function unpackSource(archive: Readable, dir: string, options: { signal: AbortSignal }): Promise<void> {
  const entries = extract();
  const reading = pipeline(archive, entries, { signal: options.signal });
  reading.catch(() => {
    // The loop below ends with the same error.
  });
  const links = new Set<string>();
  for await (const entry of entries) {
    const { type, linkname, mode } = entry.header;
    const path = safePath(entry.header.name, links);
    const target = join(dir, path);
    await mkdir(type === 'directory' ? target : dirname(target), { recursive: true });
    if (type === 'file' || type === 'contiguous-file') {
      await rm(target, { force: true });
      await pipeline(entry, createWriteStream(target, { flags: 'wx' }));
      await chmod(target, (mode & 0o111) === 0 ? 0o644 : 0o755);
    } else if (type === 'symlink') {
      await rm(target, { force: true });
      await symlink(linkname ?? '', target);
      links.add(path);
    } else if (type !== 'directory') {
      throw new FlynnError(
        'invalid',
        `the source has ${entry.header.name}, a ${type}: only files, folders and symbolic links`,
      );
    }
    entry.resume();
  }
  await reading;
}

function safePath(name: string, links: ReadonlySet<string>): string {
  const path = posix.normalize(name).replace(/\/$/, '');
  if (name.includes('\0') || posix.isAbsolute(path) || path === '..' || path.startsWith('../')) {
    throw new FlynnError('invalid', `the source has an entry outside its folder: ${name}`);
  }
  for (let parent = posix.dirname(path); parent !== '.'; parent = posix.dirname(parent)) {
    if (links.has(parent)) {
      throw new FlynnError('invalid', `the source has an entry below the symbolic link ${parent}: ${name}`);
    }
  }
  return path;
}
