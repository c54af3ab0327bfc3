/** What does an app's metadata become by a change? For both sides of the API. Pure. */

/** By name: another value, or null for what is to go. What it does not name stays. */
export type MetaChange = Readonly<Record<string, string | null>>;

export function changedMeta(meta: Readonly<Record<string, string>>, change: MetaChange): Record<string, string> {
  const next = new Map<string, string | null>([...Object.entries(meta), ...Object.entries(change)]);
  return Object.fromEntries([...next].flatMap(([name, value]) => (value === null ? [] : [[name, value]])));
}
