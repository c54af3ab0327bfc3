/** Bringing about what is wanted of a kind without rules of its own: it is checked by its type and stored. */
import { FlynnError, ifFound } from '@flynn/kit/errors';
import { changed } from '@flynn/resource/change';
import { refusal } from '@flynn/resource/record';
import { isOwnedBy } from '@flynn/resource/tombstone';
import type { Owner, Resource } from '@flynn/resource/type';
import { nameOf } from '@flynn/resource/watch';
import type { Deps } from '../deps.ts';
import { differences, isRecord } from './difference.ts';
import type { Applied, ApplyContext, Kind, Wanted } from './kind.ts';
import { specOf } from './view.ts';

type Current = Resource<unknown, unknown>;

/** By the name that it will have: a spec may say it as well. Whatever is wrong with it is told before anything is looked up. */
export async function plainTarget(
  deps: Deps,
  kind: Kind,
  wanted: Wanted<unknown>,
  signal: AbortSignal,
): Promise<Current | undefined> {
  const draft = deps.resources.draft(kind.type, inputOf(kind, wanted)).resource;
  return findObject(deps, kind, nameOf(kind.type, draft), signal);
}

function inputOf(kind: Kind, wanted: Wanted<unknown>) {
  return {
    ...(kind.type.nameOf === undefined && wanted.name !== undefined ? { id: wanted.name } : {}),
    ...(wanted.owner === undefined ? {} : { owner: wanted.owner }),
    labels: wanted.labels ?? {},
    spec: named(kind, wanted),
  };
}

/** `conflict` with a `key` if it was made or changed by somebody else in between. */
export async function applyPlain(
  deps: Deps,
  kind: Kind,
  wanted: Wanted<unknown>,
  { signal, isDryRun, current }: ApplyContext,
): Promise<Applied> {
  const { type } = kind;
  const { resources } = deps;
  const input = inputOf(kind, wanted);
  const draft = resources.draft(type, input).resource;
  const name = nameOf(type, draft);
  kind.checkSpec?.(deps, draft.spec, current?.spec);
  if (current === undefined) {
    if (wanted.revision !== undefined && wanted.revision !== 0) {
      throw new FlynnError(
        'conflict',
        `there is no ${type.name} ${name} at revision ${wanted.revision}: it was deleted`,
      );
    }
    if (type.owner !== undefined && draft.owner?.type !== type.owner) {
      const example = `owner: ${type.owner}/NAME`;
      throw refusal(`${type.name} ${name}`, [{ path: 'owner', message: `it belongs to one, say which: ${example}` }]);
    }
    if (!isDryRun) await resources.create(type, input, { signal });
    return { name, isNew: true, changes: differences({}, written(kind, draft)) };
  }
  checkOwner(name, current, wanted.owner);
  if (current.deletingSince !== undefined) throw beingDeleted(kind, name, current);
  const change = { spec: draft.spec, labels: wanted.labels ?? current.labels };
  const next = changed(type, current, change, current.updatedAt);
  const changes = differences(written(kind, current), written(kind, next));
  const expected = wanted.revision === undefined ? {} : { expectRevision: wanted.revision };
  if (wanted.revision !== undefined && wanted.revision !== current.revision) {
    throw new FlynnError(
      'conflict',
      `${type.name} ${name} is at revision ${current.revision}, not ${wanted.revision}: read it again and repeat the change`,
    );
  }
  if (!isDryRun && changes.length > 0) {
    await resources.change(type, current.id, () => change, { signal, expectUid: current.uid, ...expected });
  }
  return { name, isNew: false, changes };
}

/** By id, or by name; of kinds that are found otherwise, so. */
export async function findObject(
  deps: Deps,
  kind: Kind,
  name: string,
  signal: AbortSignal,
): Promise<Current | undefined> {
  if (kind.find !== undefined) return kind.find(deps, name, signal);
  return ifFound<Current>(deps.resources.lookup(kind.type, name, { signal }));
}

export function beingDeleted(kind: Kind, name: string, { waitingFor }: Current): FlynnError {
  const reasons = Object.values(waitingFor);
  const why = reasons.length === 0 ? '' : ` (${reasons.join('; ')})`;
  return new FlynnError('conflict', `${kind.type.name} ${name} is being deleted${why}: apply it again once it is gone`);
}

/** An owner is set once. */
export function checkOwner(name: string, current: Current, owner: Owner | undefined): void {
  if (owner === undefined || isOwnedBy(current, owner)) return;
  const now = current.owner === undefined ? 'nothing' : `${current.owner.type} ${current.owner.id}`;
  throw refusal(`${current.type} ${name}`, [
    { path: 'owner', message: `it cannot change: ${current.type} ${name} belongs to ${now}` },
  ]);
}

function named({ type }: Kind, { name, spec }: Wanted<unknown>): unknown {
  if (type.nameField === undefined || name === undefined || !isRecord(spec)) return spec;
  return { ...spec, [type.nameField]: name };
}

function written({ type }: Kind, { spec, labels }: Current): object {
  return { labels, spec: specOf(type, spec) };
}
