/** Whose is the workload? */

/**
 * Of all hosts that are there the one with the highest hash together with it (rendezvous hashing): when a host comes or
 * goes, only its share changes hands. A scheduler that runs on none of them takes everything.
 */
export function isOwnWorkload(workloadId: string, ownId: string, hostIds: Iterable<string>): boolean {
  const own = hash(`${ownId}/${workloadId}`);
  let isHost = false;
  let isHighest = true;
  for (const hostId of hostIds) {
    if (hostId === ownId) {
      isHost = true;
      continue;
    }
    const other = hash(`${hostId}/${workloadId}`);
    if (other > own || (other === own && hostId > ownId)) isHighest = false;
  }
  return isHighest || !isHost;
}

/** FNV-1a with a final mix, so that ids that differ in one character are far apart. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let at = 0; at < text.length; at += 1) {
    value = Math.imul(value ^ text.charCodeAt(at), 0x01000193);
  }
  value = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  value = Math.imul(value ^ (value >>> 13), 0xc2b2ae35);
  return (value ^ (value >>> 16)) >>> 0;
}
