/** Files as the tar stream the engine unpacks into a container. */
import { createReadStream } from 'node:fs';
import { posix } from 'node:path';
import { PassThrough, type Readable, pipeline as pipe } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { pack } from 'tar-stream';
import type { TarEntry } from './ingredients.ts';

/** Everything belongs to root and has one time: equal files make equal layers. */
const common = { uid: 0, gid: 0, uname: 'root', gname: 'root', mtime: new Date(0) } as const;

export function archiveOf(entries: readonly TarEntry[]): Readable {
  const archive = pack();
  const write = async (): Promise<void> => {
    for (const folder of foldersOf(entries)) {
      archive.entry({ ...common, name: folder, type: 'directory', mode: 0o755 });
    }
    for (const entry of entries) {
      const name = entry.path.replace(/^\//, '');
      switch (entry.type) {
        case 'file':
          archive.entry({ ...common, name, mode: entry.mode }, Buffer.from(entry.content));
          break;
        case 'link':
          archive.entry({ ...common, name, type: 'symlink', linkname: entry.target });
          break;
        case 'large':
          await pipeline(
            createReadStream(entry.file, { highWaterMark: 1024 ** 2 }),
            archive.entry({ ...common, name, mode: entry.mode, size: entry.sizeBytes }),
          );
          break;
        default:
          entry satisfies never;
      }
    }
    archive.finalize();
  };
  write().catch((error: unknown) => archive.destroy(error instanceof Error ? error : new Error(String(error))));
  // tar-stream's own streams are not quite Node's.
  return pipe(archive, new PassThrough(), () => {
    // Whoever reads the archive hears of a failure from it.
  });
}

/** Only folders that are ours to make: writing an entry for /usr/bin would change what Debian says of it. */
export function foldersOf(entries: readonly Pick<TarEntry, 'path'>[]): string[] {
  const folders = new Set<string>();
  for (const { path } of entries) {
    for (let folder = posix.dirname(path); folder !== '/' && folder !== '.'; folder = posix.dirname(folder)) {
      if (/^\/(usr\/lib\/(flynn|node_modules)|opt\/flynn)(\/|$)/.test(folder)) folders.add(folder.slice(1));
    }
  }
  return [...folders].sort();
}
