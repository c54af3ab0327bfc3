/** How many workers does a router have? */

/** Measured, of the image's bundle: a worker has 75 MB, and is to hold ten thousand clients; the parent has 54. */
const workerBytes = 128 * 1_048_576;
const parentBytes = 64 * 1_048_576;
/** More than this one machine's network seldom feeds; whoever has one that does can say so. */
const maxByDefault = 4;

/** One for each core, as many as fit in the memory it may use. With one there is no parent: the router is one process. */
export function workerCount(options: {
  /** What was asked for; 0 leaves it open. */
  wanted: number;
  cores: number;
  /** Undefined without a limit. */
  memoryBytes: number | undefined;
}): number {
  if (options.wanted > 0) return options.wanted;
  const room = ((options.memoryBytes ?? Infinity) - parentBytes) / workerBytes;
  return Math.max(1, Math.min(options.cores, maxByDefault, Math.floor(room)));
}
