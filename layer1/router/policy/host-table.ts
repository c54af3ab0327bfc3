/** Which entry does a request belong to? A change costs the same however many there are, and so does a search. */
import { isPlain, normalPath, pathEnd } from './path.ts';

/** Where a route is. Among those at the same place, which the controller does not let happen, the older stands. */
export type Place = { readonly id: string; readonly domain: string; readonly path: string; readonly createdAt: string };

/**
 * A host's own routes come before those of a wildcard, which stands for exactly one label, and those before the routes
 * for all hosts (`*`); each only if a path of theirs matches. Among a host's the longest path wins; `/a` matches `/a` and
 * `/a/b` but not `/ab`.
 */
export class HostTable<P extends Place> {
  readonly #exact = new Map<string, PathTable<P>>();
  /** By what follows `*.`. */
  readonly #wildcard = new Map<string, PathTable<P>>();
  readonly #everywhere = new PathTable<P>();

  add(place: P): void {
    this.#tableFor(normalHost(place.domain)).add(place);
  }

  remove(place: P): void {
    const domain = normalHost(place.domain);
    const table = this.#tableFor(domain);
    table.remove(place);
    if (!table.isEmpty) return;
    if (domain.startsWith('*.')) this.#wildcard.delete(domain.slice(2));
    else this.#exact.delete(domain);
  }

  /** The host in its normal form; the target with its query. */
  find(asked: string, target: string): P | undefined {
    const host = asked.charCodeAt(0) === 91 ? normalAddress(asked) : asked;
    const own = this.#exact.get(host)?.find(target);
    if (own !== undefined) return own;
    if (this.#wildcard.size > 0) {
      const at = host.indexOf('.');
      const wild = at > 0 ? this.#wildcard.get(host.slice(at + 1))?.find(target) : undefined;
      if (wild !== undefined) return wild;
    }
    return this.#everywhere.find(target);
  }

  #tableFor(domain: string): PathTable<P> {
    if (domain === '*') return this.#everywhere;
    const [tables, name] = domain.startsWith('*.') ? [this.#wildcard, domain.slice(2)] : [this.#exact, domain];
    let table = tables.get(name);
    if (table === undefined) {
      table = new PathTable();
      tables.set(name, table);
    }
    return table;
  }
}

/** The paths of one host. */
class PathTable<P extends Place> {
  /** By normal path without a slash at its end; the oldest first. Most hosts have only the root, and need none. */
  #places: Map<string, P[]> | undefined;
  /** How many prefixes there are of each number of segments; empty without `#places`. */
  readonly #depths: number[] = [];
  #root: P | undefined;

  get isEmpty(): boolean {
    return this.#root === undefined && (this.#places === undefined || this.#places.size === 0);
  }

  add(place: P): void {
    if (this.#places === undefined && this.isEmpty && prefixOf(place.path) === '') this.#root = place;
    else if (this.#places === undefined) {
      const root = this.#root;
      this.#places = new Map();
      if (root !== undefined) this.#put(this.#places, root);
      this.#put(this.#places, place);
    } else this.#put(this.#places, place);
  }

  remove(place: P): void {
    if (this.#places === undefined) {
      if (this.#root?.id === place.id) this.#root = undefined;
      return;
    }
    const prefix = prefixOf(place.path);
    const there = this.#places.get(prefix);
    const index = there?.findIndex(({ id }) => id === place.id) ?? -1;
    if (there === undefined || index === -1) return;
    there.splice(index, 1);
    if (there.length === 0) {
      this.#places.delete(prefix);
      this.#count(prefix, -1);
    }
    this.#root = this.#places.get('')?.[0];
  }

  find(target: string): P | undefined {
    // Only the root, which everything is below: no need to look at the path.
    if (this.#depths.length <= 1) return this.#root;
    const end = pathEnd(target);
    const path = isPlain(target) ? target : normalPath(target.slice(0, end));
    const length = path === target ? end : path.length;
    const borders: number[] = [];
    for (let i = 1; i < length && borders.length + 1 < this.#depths.length; i += 1) {
      if (path.charCodeAt(i) === 47) borders.push(i);
    }
    if (borders.length + 1 < this.#depths.length) borders.push(length);
    for (let depth = borders.length; depth > 0; depth -= 1) {
      if ((this.#depths[depth] ?? 0) === 0) continue;
      const found = this.#places?.get(path.slice(0, borders[depth - 1]));
      if (found !== undefined) return found[0];
    }
    return this.#root;
  }

  #put(places: Map<string, P[]>, place: P): void {
    const prefix = prefixOf(place.path);
    const there = places.get(prefix);
    if (there === undefined) {
      places.set(prefix, [place]);
      this.#count(prefix, 1);
    } else {
      there.push(place);
      there.sort((a, b) => compare(a.createdAt, b.createdAt) || compare(a.id, b.id));
    }
    this.#root = places.get('')?.[0];
  }

  #count(prefix: string, change: 1 | -1): void {
    const depth = depthOf(prefix);
    while (this.#depths.length <= depth) this.#depths.push(0);
    this.#depths[depth] = (this.#depths[depth] ?? 0) + change;
    while (this.#depths.at(-1) === 0) this.#depths.pop();
  }
}

function depthOf(prefix: string): number {
  return prefix === '' ? 0 : prefix.split('/').length - 1;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** The normal form of a route's path, which is text and not bytes, without a slash at its end: of `/`, nothing. */
export function prefixOf(path: string): string {
  const bytes = path.replace(/[^\0-\x7f]+/g, (text) => Buffer.from(text).toString('latin1'));
  return normalPath(bytes).replace(/\/$/, '');
}

/** Lower case, without port and without the dot of a fully qualified name. Empty for what is no host. */
export function normalHost(host: string): string {
  if (host.startsWith('[')) return normalAddress(host.slice(0, host.indexOf(']') + 1));
  return (host.split(':', 1)[0] ?? '').toLowerCase().replace(/\.$/, '');
}

/** An IPv6 address in brackets can be written in many ways; what is none stays as it is. */
function normalAddress(text: string): string {
  return URL.parse(`http://${text}/`)?.hostname ?? text.toLowerCase();
}
