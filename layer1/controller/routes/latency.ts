/** How long did requests take, told by counts of buckets? Pure, and without schemas: pages of the dashboard do this, too. */

/**
 * Upper bounds of the latency buckets, milliseconds; one more bucket takes what is above the last. The same everywhere, so that
 * sums are sums.
 */
export const latencyBoundsMs: readonly number[] = [
  1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000,
];

/**
 * The latency that this share of the requests did not exceed, milliseconds: within a bucket as if they were spread
 * evenly, above the last bound the last bound. Undefined without requests.
 */
export function latencyAt(share: number, { counts }: { counts: readonly number[] }): number | undefined {
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total === 0) return undefined;
  const rank = Math.max(1, share * total);
  let below = 0;
  for (const [index, count] of counts.entries()) {
    const high = latencyBoundsMs[index];
    if (high === undefined) break;
    const low = index === 0 ? 0 : (latencyBoundsMs[index - 1] ?? 0);
    if (below + count >= rank) return low + ((high - low) * (rank - below)) / count;
    below += count;
  }
  return latencyBoundsMs.at(-1);
}
