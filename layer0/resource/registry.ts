/** Which types are there? Each registered once, under a group, a version and a kind that the API and files call it by. */
import { nearestOf } from '@flynn/kit/config';
import { FlynnError } from '@flynn/kit/errors';
import { tombstoneType } from './tombstone.ts';
import type { AnyType } from './type.ts';

const shapes = {
  name: { pattern: /^[a-z][a-z0-9-]{0,62}$/, like: 'lower-case letters, digits and dashes, like "cron-job"' },
  group: { pattern: /^[a-z][a-z0-9]*(?:_[a-z0-9]+)*$/, like: 'snake_case, like "flynn" or "my_team"' },
  kind: { pattern: /^[A-Z][A-Za-z0-9]{0,62}$/, like: 'PascalCase, like "CronJob"' },
} as const;

export class TypeRegistry {
  readonly #types = new Map<string, AnyType>();

  /** Begins with the tombstone, which every cascade needs. */
  constructor(types: readonly AnyType[] = []) {
    this.register(tombstoneType);
    for (const type of types) this.register(type);
  }

  /** Throws `internal`, which is a bug of the caller: the type is malformed, or there is one of that name or kind. */
  register(type: AnyType): void {
    for (const part of ['name', 'group', 'kind'] as const) {
      if (!shapes[part].pattern.test(type[part])) {
        throw new FlynnError('internal', `the ${part} of a resource type is ${shapes[part].like}, not "${type[part]}"`);
      }
    }
    const what = `the resource type ${type.name}`;
    if (!Number.isSafeInteger(type.version) || type.version < 1) {
      throw new FlynnError('internal', `${what} has version ${type.version}: it has to be 1 or more`);
    }
    if (!type.status.safeParse(type.initialStatus()).success) {
      throw new FlynnError('internal', `${what} has an initial status that does not fit its own schema`);
    }
    if (this.#types.has(type.name)) throw new FlynnError('internal', `${what} is registered already`);
    const same = this.all().find(({ group, kind }) => group === type.group && kind === type.kind);
    if (same !== undefined) {
      throw new FlynnError('internal', `${what} has the kind ${type.group}/${type.kind}, which ${same.name} has too`);
    }
    this.#types.set(type.name, type);
  }

  all(): readonly AnyType[] {
    return [...this.#types.values()];
  }

  /** By the name keys and owner references say. */
  find(name: string): AnyType | undefined {
    return this.#types.get(name);
  }

  /** Those an object of the named type may own something of. */
  ownedBy(name: string): readonly AnyType[] {
    return this.all().filter(({ owner }) => owner === undefined || owner === name);
  }

  /** `resolve('flynn', 'v1', 'App')`. Throws `not_found` naming what there is. */
  resolve(group: string, version: string, kind: string): AnyType {
    const all = this.all();
    const found = all.find((type) => type.group === group && type.kind === kind && versionOf(type) === version);
    if (found !== undefined) return found;
    const names = all.map((type) => `${type.group}/${versionOf(type)}/${type.kind}`);
    const wanted = `${group}/${version}/${kind}`;
    const nearest = nearestOf(wanted, names);
    throw new FlynnError(
      'not_found',
      `there is no kind ${wanted}${nearest === undefined ? '' : `: did you mean ${nearest}?`}`,
      { detail: { kinds: names } },
    );
  }
}

/** As paths and files say it: `v1`. */
export function versionOf(type: Pick<AnyType, 'version'>): string {
  return `v${type.version}`;
}
