/** What differs between what is and what is wanted? Field by field, lists as a whole. Pure. */

export type Difference = { path: string; before?: unknown; after?: unknown };

export function differences(before: unknown, after: unknown, path = ''): Difference[] {
  if (isFilled(before) || isFilled(after)) {
    const [old = {}, next = {}] = [before, after];
    if (isRecord(old) && isRecord(next)) {
      const names = [...new Set([...Object.keys(old), ...Object.keys(next)])].toSorted();
      return names.flatMap((name) =>
        differences(fieldOf(old, name), fieldOf(next, name), path === '' ? name : `${path}.${name}`),
      );
    }
  }
  if (isEqual(before, after)) return [];
  return [{ path, ...(before === undefined ? {} : { before }), ...(after === undefined ? {} : { after }) }];
}

function isFilled(value: unknown): boolean {
  return isRecord(value) && Object.keys(value).length > 0;
}

/** A JSON merge patch (RFC 7396): null takes a field away. */
export function merged(target: unknown, patch: unknown): unknown {
  if (!isRecord(patch)) return patch;
  const result: Record<string, unknown> = isRecord(target) ? { ...target } : {};
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete result[name];
    else define(result, name, merged(fieldOf(result, name), value));
  }
  return result;
}

/** The fields that are not as in `defaults`, at any depth. */
export function unlike(value: unknown, defaults: unknown): unknown {
  if (!isRecord(value) || !isRecord(defaults)) return value;
  const other = Object.entries(value).filter(([name, inner]) => !isEqual(inner, fieldOf(defaults, name)));
  return Object.fromEntries(other.map(([name, inner]) => [name, unlike(inner, fieldOf(defaults, name))]));
}

/** Of JSON values; the order of fields does not matter, and a field that is undefined is none. */
export function isEqual(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (Array.isArray(a) && Array.isArray(b)) {
    return a.length === b.length && a.every((value, index) => isEqual(value, b[index]));
  }
  if (!isRecord(a) || !isRecord(b)) return false;
  return [...new Set([...Object.keys(a), ...Object.keys(b)])].every((name) =>
    isEqual(fieldOf(a, name), fieldOf(b, name)),
  );
}

/** Its own: "constructor" may be the name of a label. */
export function fieldOf<T>(record: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(record, name) ? record[name] : undefined;
}

/** As `merged`, but what the patch takes away stays null: whoever acts on it is told. */
export function overlaid(target: unknown, patch: unknown): unknown {
  if (!isRecord(patch)) return patch;
  const result: Record<string, unknown> = isRecord(target) ? { ...target } : {};
  for (const [name, value] of Object.entries(patch)) define(result, name, overlaid(fieldOf(result, name), value));
  return result;
}

/** Whatever the name, `__proto__` included. */
function define(record: Record<string, unknown>, name: string, value: unknown): void {
  Object.defineProperty(record, name, { value, enumerable: true, configurable: true, writable: true });
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
