/** The kinds of objects a cluster has, and what people call them. */
import { generic } from '@flynn/controller/generic/api';
import type { KindView } from '@flynn/controller/generic/api';
import { nearestOf } from '@flynn/kit/config';
import { FlynnError } from '@flynn/kit/errors';
import type { Context } from '../context.ts';

export async function listKinds(context: Context): Promise<KindView[]> {
  const client = await context.client();
  return client.call(generic.kinds, {});
}

/** `app`, `apps`, `App` or `flynn/v1/App`. Throws `invalid` naming what there is. */
export function kindNamed(kinds: readonly KindView[], text: string): KindView {
  const found = kinds.filter((kind) => isCalled(kind, text));
  const [kind, other] = found;
  if (kind === undefined) {
    const names = kinds.map(({ names: [name = ''] }) => name);
    const nearest = nearestOf(
      text.toLowerCase(),
      kinds.flatMap(({ names: all }) => all),
    );
    const hint = nearest === undefined ? `there are ${names.join(', ')}` : `did you mean ${nearest}?`;
    throw new FlynnError('invalid', `there is no kind "${text}": ${hint}`);
  }
  if (other !== undefined) {
    const all = found.map(fullNameOf).join(' and ');
    throw new FlynnError('invalid', `"${text}" may be ${all}: write which`);
  }
  return kind;
}

export function isCalled(kind: KindView, text: string): boolean {
  return text === fullNameOf(kind) || text === kind.kind || kind.names.includes(text.toLowerCase());
}

export function fullNameOf({ group, version, kind }: Pick<KindView, 'group' | 'version' | 'kind'>): string {
  return `${group}/${version}/${kind}`;
}

export function paramsOf({ group, version, kind }: KindView): { group: string; version: string; kind: string } {
  return { group, version, kind };
}

/** `app/shop`. */
export function referenceTo({ names: [name = ''] }: KindView, object: string): string {
  return `${name}/${object}`;
}
