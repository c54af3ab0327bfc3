/** How many workers may a router have? How many it has of these is what `demand` says. */

/** Measured, of the image's bundle: one has 75 MB, and is to hold ten thousand clients. */
const processBytes = 128 * 1_048_576;
/** More than this one machine's network seldom feeds; whoever has one that does can say so. */
const maxByDefault = 4;

export type WorkerRange = { readonly least: number; readonly most: number };

/** From one to one for each core, as many as fit in the memory it may use, with the parent of several, which was one of them. */
export function workerRange(options: {
  /** What was asked for; undefined leaves it open. */
  wanted: WorkerRange | undefined;
  cores: number;
  /** Undefined without a limit. */
  memoryBytes: number | undefined;
}): WorkerRange {
  if (options.wanted !== undefined) return options.wanted;
  const room = Math.floor((options.memoryBytes ?? Infinity) / processBytes) - 1;
  return { least: 1, most: Math.max(1, Math.min(options.cores, maxByDefault, room)) };
}
