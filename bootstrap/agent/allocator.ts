/**
 * What the platform's programs have their memory from: jemalloc, which gives free pages back wherever they lie. glibc gives
 * back those at the heap's end, so that what passes through a program for a moment, images and answers, stays with it.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';

/** Debian's and Ubuntu's; `packages` installs it on hosts, too. */
export const allocatorPackage = 'libjemalloc2';
const library = 'libjemalloc.so.2';
const folders = ['/usr/lib/x86_64-linux-gnu', '/usr/lib/aarch64-linux-gnu'];

/** One heap for all threads, none of which keeps pieces for itself; what is free goes back after a second. */
const settings = 'narenas:1,tcache:false,dirty_decay_ms:1000,muzzy_decay_ms:0';

type Variables = Readonly<Record<string, string>>;

/** For programs in containers. */
export const allocatorEnv: Variables = { LD_PRELOAD: library, MALLOC_CONF: settings };

/**
 * glibc's own, for machines without that library. One heap for all threads; what is free at its end, and pieces of streams, go
 * back at once.
 */
const withoutLibrary: Variables = {
  MALLOC_ARENA_MAX: '1',
  MALLOC_TRIM_THRESHOLD_: '131072',
  MALLOC_MMAP_THRESHOLD_: '32768',
};

/** For programs of this machine. */
export function hostAllocatorEnv(): Variables {
  const path = folders.map((folder) => join(folder, library)).find((file) => existsSync(file));
  return path === undefined ? withoutLibrary : { LD_PRELOAD: path, MALLOC_CONF: settings };
}
