/** Whose is the workload? */

/**
 * Of all hosts that are there, the own one among them, the one with the highest hash together with it (rendezvous hashing):
 * when a host comes or goes, only its share changes hands. Of ten thousand hosts about ten are looked at to find that it is
 * another's.
 */
export function isOwnWorkload(workloadId: string, ownId: string, hostIds: Iterable<string>): boolean {
  const own = hash(`${ownId}/${workloadId}`);
  for (const hostId of hostIds) {
    if (hostId === ownId) continue;
    const other = hash(`${hostId}/${workloadId}`);
    if (other > own || (other === own && hostId > ownId)) return false;
  }
  return true;
}

/** FNV-1a with a final mix, so that ids that differ in one character are far apart. */
export function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let at = 0; at < text.length; at += 1) {
    value = Math.imul(value ^ text.charCodeAt(at), 0x01000193);
  }
  value = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  value = Math.imul(value ^ (value >>> 13), 0xc2b2ae35);
  return (value ^ (value >>> 16)) >>> 0;
}
