/** Objects as tables and as files. */
import type { GenericObject, KindView } from '@flynn/controller/generic/api';
import { stringify } from 'yaml';
import { formatAge } from '../output.ts';

/** NAME, the kind's own columns, STATE, AGE. */
export function headerOf({ columns }: KindView): string[] {
  return ['NAME', ...Object.keys(columns), 'STATE', 'AGE'];
}

export function rowOf({ columns }: KindView, object: GenericObject, now: number): string[] {
  return [
    object.name,
    ...Object.values(columns).map((path) => cellOf(valueAt(object, path))),
    object.outlook ?? '-',
    formatAge(object.metadata.createdAt, now),
  ];
}

function valueAt(object: unknown, path: string): unknown {
  return path.split('.').reduce<unknown>((value, name) => {
    return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;
  }, object);
}

function cellOf(value: unknown): string {
  if (value === undefined || value === null) return '-';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** What is wanted first, then what is: the file it was made of, and more. */
export function yamlOf(object: GenericObject): string {
  const { status, conditions, outlook, metadata } = object;
  const told = {
    ...(Object.keys(status).length === 0 ? {} : { status }),
    ...(conditions.length === 0 ? {} : { conditions }),
    ...(outlook === undefined ? {} : { outlook }),
    metadata,
  };
  return text({ ...wantedOf(object), ...told });
}

/** The file that would make it. */
export function yamlOfWanted(object: GenericObject): string {
  return text(wantedOf(object));
}

export function wantedOf({ group, version, kind, name, owner, labels, spec }: GenericObject): Record<string, unknown> {
  return {
    kind: group === 'flynn' ? kind : `${group}/${version}/${kind}`,
    name,
    ...(owner === undefined ? {} : { owner }),
    ...(Object.keys(labels).length === 0 ? {} : { labels }),
    spec,
  };
}

function text(value: object): string {
  return stringify(value, { lineWidth: 0, aliasDuplicateObjects: false });
}
