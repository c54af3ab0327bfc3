/** Unpacks an archive of somebody's repository, and nothing outside the folder it is for. */
import { createWriteStream } from 'node:fs';
import { chmod, mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join, posix } from 'node:path';
import type { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { FlynnError } from '@flynn/kit/errors';
import { extract } from 'tar-stream';
import { isPointer, mostPointerBytes } from './lfs-pointers.ts';

/** 1980: what is older has no time in a ZIP file, and archives that say none have 1970. */
const leastTimeS = 315_532_800;

export type Unpacked = {
  /** Which files are pointers of Git LFS. */
  pointers: string[];
  /** The newest of the archive, in seconds since 1970: of a commit that it was made at. */
  timeS: number;
};

/**
 * `invalid` for an entry that leads outside, by its name or through a link of the
 * archive, or is no file at all.
 */
export async function unpackSource(
  archive: Readable,
  dir: string,
  options: { signal: AbortSignal },
): Promise<Unpacked> {
  const entries = extract();
  const reading = pipeline(archive, entries, { signal: options.signal });
  reading.catch(() => {
    // The loop below ends with the same error.
  });
  const links = new Set<string>();
  const pointers: string[] = [];
  let timeS = leastTimeS;
  for await (const entry of entries) {
    const { type, linkname, mode, mtime } = entry.header;
    const entryTimeS = Math.floor((mtime?.getTime() ?? 0) / 1000);
    if (entryTimeS > timeS) timeS = entryTimeS;
    const path = safePath(entry.header.name, links);
    const target = join(dir, path);
    await mkdir(type === 'directory' ? target : dirname(target), { recursive: true });
    if (type === 'file' || type === 'contiguous-file') {
      await rm(target, { force: true });
      if ((entry.header.size ?? Infinity) > mostPointerBytes) {
        await pipeline(entry, createWriteStream(target, { flags: 'wx' }));
      } else {
        const content = await buffer(entry);
        if (isPointer(content.toString())) pointers.push(path);
        await writeFile(target, content, { flag: 'wx' });
      }
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
  return { pointers, timeS };
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
