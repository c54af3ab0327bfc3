/**
 * Which keys hold no secrets? All others are sealed: a kind that somebody adds is, without a word about it. What is listed
 * here is read in great numbers or before there are keys, and is made of names, addresses and figures.
 */
const openPrefixes = [
  '/flynn/keys/',
  '/flynn/leader/',
  // Names to ids.
  '/flynn/name/',
  '/flynn/operation-lock/',
  '/flynn/discovery/',
  '/flynn/cluster/',
  '/flynn/network/',
  '/flynn/fences/',
  // What jobs write by themselves, past this client: their host's door checks where, and hands on what.
  '/flynn/keyspaces/',
  // How far a restore is.
  '/flynn/restore',
  // Of the cell all but the templates, which carry the env of jobs.
  ...['hosts', 'settings', 'workloads', 'evaluations', 'claims', 'assignments', 'status', 'plans'].map(
    (kind) => `/flynn/cell/${kind}/`,
  ),
] as const;

export function isOpenKey(key: string): boolean {
  return openPrefixOf(key) !== undefined;
}

/** Of those under which all is open the one that this key is under. */
export function openPrefixOf(key: string): string | undefined {
  return openPrefixes.find((prefix) => key.startsWith(prefix));
}
