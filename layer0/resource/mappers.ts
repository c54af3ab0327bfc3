/** Which ids does a change of another object concern? Functions for `keysOf`, which asks for the old and the new state. */
import type { Mirror } from '@flynn/store/mirror';
import type { Resource } from './type.ts';

type Any = Resource<unknown, unknown>;

/** The owner's, if it is of that type: a change of what it owns concerns it. */
export function toOwner(type: string): (resource: Any) => string[] {
  return ({ owner }) => (owner?.type === type ? [owner.id] : []);
}

/** All of those that refer to the changed object, by its id or by whatever else `namesOf` says. */
export function toReferring<T, C extends Any>(
  referring: Mirror<T>,
  referencesOf: (value: T) => readonly string[],
  namesOf: (changed: C) => readonly string[] = ({ id }) => [id],
): (changed: C) => string[] {
  return (changed) => {
    const names = new Set(namesOf(changed));
    return idsWhere(referring, (value) => referencesOf(value).some((name) => names.has(name)));
  };
}

export type Selector = Readonly<Record<string, string>>;

/** All of those that select the changed object by its labels. */
export function toSelecting<T>(
  selecting: Mirror<T>,
  selectorOf: (value: T) => Selector | undefined,
): (changed: Pick<Any, 'labels'>) => string[] {
  return ({ labels }) =>
    idsWhere(selecting, (value) => {
      const selector = selectorOf(value);
      return selector !== undefined && selects(selector, labels);
    });
}

/** An empty selector selects everything. */
export function selects(selector: Selector, labels: Readonly<Record<string, string>>): boolean {
  return Object.entries(selector).every(([name, value]) => labels[name] === value);
}

function idsWhere<T>(mirror: Mirror<T>, isMeant: (value: T) => boolean): string[] {
  return [...mirror.snapshot.entries].flatMap(([id, { value }]) => (isMeant(value) ? [id] : []));
}

/**
 * What each id was made from when it was last reconciled. What refers to it may by now refer to something else, or be
 * gone: only this remembers that the id depends on it still, so that what was computed of it is put right.
 */
export class BoundReferences {
  readonly #references = new Map<string, ReadonlySet<string>>();
  readonly #bound = new Map<string, Set<string>>();

  /** Takes the place of what the id was bound to; with nothing the id is forgotten. */
  bind(id: string, references: Iterable<string>): void {
    for (const reference of this.#references.get(id) ?? []) {
      const ids = this.#bound.get(reference);
      ids?.delete(id);
      if (ids?.size === 0) this.#bound.delete(reference);
    }
    const next = new Set(references);
    if (next.size === 0) {
      this.#references.delete(id);
      return;
    }
    this.#references.set(id, next);
    for (const reference of next) {
      const ids = this.#bound.get(reference) ?? new Set();
      this.#bound.set(reference, ids.add(id));
    }
  }

  /** For `keysOf(mirror, (_, key) => bound.boundTo(key))`. */
  boundTo(reference: string): string[] {
    return [...(this.#bound.get(reference) ?? [])];
  }
}
