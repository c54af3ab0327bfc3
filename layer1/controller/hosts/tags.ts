/** What do tags of a host become? Pure. */

type TagChanges = Readonly<Record<string, string | null>>;

/** Null takes a tag away; those left out stay. */
export function withTags(before: Readonly<Record<string, string>>, changes: TagChanges): Record<string, string> {
  const tags = new Map(Object.entries(before));
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) tags.delete(name);
    else tags.set(name, value);
  }
  return Object.fromEntries([...tags].sort(([a], [b]) => (a < b ? -1 : 1)));
}
