/**
 * What does a request's path mean? Routes are matched on the normal form, so that no way of writing a path leads past the
 * route it belongs to; what is sent on is what came.
 *
 * The normal form (RFC 3986 6.2.2, and what nginx matches on): percent-encoding decoded once, `.` and `..` resolved,
 * repeated slashes one. `%2F` counts as a slash, and so does a backslash, as in every reader that goes by the URL standard of
 * browsers (`new URL()`): apps differ in that, and the longer prefix is the safer reading.
 */

const slash = 47;
const dot = 46;
const percent = 37;
const question = 63;
const backslash = 92;

/** Where the path ends and the query begins. */
export function pathEnd(target: string): number {
  const at = target.indexOf('?');
  return at === -1 ? target.length : at;
}

/** Nothing encoded, no empty segment, none that begins with a dot: most paths are, and cost no more than this look. */
export function isPlain(target: string): boolean {
  for (let i = 0; i < target.length; i += 1) {
    const code = target.charCodeAt(i);
    if (code === question) break;
    if (code === percent || code === backslash) return false;
    if (code === slash) {
      const next = target.charCodeAt(i + 1);
      if (next === slash || next === dot) return false;
    }
  }
  return true;
}

/** A segment as it came, with the slash before it, and as it is meant. */
type Segment = { readonly raw: string; readonly plain: string };

/** Of a path that begins with a slash. A slash at its end is a last segment without a name. */
function segmentsOf(path: string): Segment[] {
  const segments: Segment[] = [];
  let endsWithSlash = false;
  for (const [raw, , name = ''] of path.matchAll(/([/\\]|%2f|%5c)((?:(?!%2f|%5c)[^/\\])*)/gi)) {
    const plain = decode(name);
    if (plain === '..') segments.pop();
    endsWithSlash = plain === '' || plain === '.' || plain === '..';
    if (!endsWithSlash) segments.push({ raw, plain });
  }
  if (endsWithSlash) segments.push({ raw: '/', plain: '' });
  return segments;
}

/** `*`, which is no path, stays as it is. */
export function normalPath(path: string): string {
  if (path.charCodeAt(0) !== slash) return path;
  return segmentsOf(path)
    .map((segment) => `/${segment.plain}`)
    .join('');
}

/**
 * What a target is below a prefix of its normal path: `/a/b?c` below `/a` is `/b?c`. Encoded as it came, `%2F` too, as
 * the app may tell it from a slash; but without dot segments, which could lead out of the prefix.
 */
export function belowPrefix(target: string, prefix: string): string {
  if (prefix === '' || target.charCodeAt(0) !== slash) return target;
  if (isPlain(target)) {
    const rest = target.slice(prefix.length);
    return rest.charCodeAt(0) === slash ? rest : `/${rest}`;
  }
  const end = pathEnd(target);
  const depth = prefix.split('/').length - 1;
  const rest = segmentsOf(target.slice(0, end))
    .slice(depth)
    .map((segment) => segment.raw)
    .join('');
  return `/${rest.replace(/^(?:[/\\]|%2f|%5c)/i, '')}${target.slice(end)}`;
}

/** Bytes as Latin-1, as they would have come unencoded. What is no encoding stays as it is. */
function decode(text: string): string {
  if (!text.includes('%')) return text;
  return text.replace(/%([\da-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}
