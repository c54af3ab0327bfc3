/** Where do resources and their names live in the store? */
import { FlynnError } from '@flynn/kit/errors';

export function resourcePrefix(type: string): string {
  return `/flynn/resource/${type}/`;
}

export function resourceKey(type: string, id: string): string {
  return resourcePrefix(type) + id;
}

export function nameKey(type: string, name: string): string {
  return `/flynn/name/${type}/${name}`;
}

/** Throws `invalid`. A slash would put the resource under another's key. */
export function checkId(type: string, id: string): void {
  if (/^[\w.:@+-]{1,200}$/.test(id)) return;
  throw new FlynnError(
    'invalid',
    `"${id}" cannot be the id of a resource of type ${type}: use up to 200 letters, digits and . : @ + - _`,
  );
}
