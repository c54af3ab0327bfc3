/** Which compares and operations make up a change of one resource? Pieces of several changes go into one transaction. */
import { FlynnError } from '@flynn/kit/errors';
import type { Compare, Entry, Operation, Transaction } from '@flynn/store/store';
import { nameKey, resourceKey } from './keys.ts';
import { compareOf, putOp } from './record.ts';
import type { Resource, ResourceType } from './type.ts';

export type Piece = Readonly<{ compare?: readonly Compare[]; then?: readonly Operation[] }>;

/** Claims a name for an id, once: the transaction fails if it is taken. Release it with `releaseName`. */
export function claimName(type: string, name: string, id: string): Piece {
  const key = nameKey(type, name);
  return { compare: [{ key, modRevision: 0 }], then: [{ put: key, value: id }] };
}

export function releaseName(type: string, name: string): Piece {
  return { then: [{ delete: nameKey(type, name) }] };
}

/** Writes `next` where `before` is now (undefined: nothing yet), and moves its name along. */
export function writePiece<Spec, Status, SpecInput>(
  type: ResourceType<string, Spec, Status, SpecInput>,
  before: Resource<Spec, Status> | undefined,
  next: Resource<Spec, Status>,
): Piece {
  const oldName = before === undefined ? undefined : type.nameOf?.(before.spec);
  const newName = type.nameOf?.(next.spec);
  const pieces: Piece[] = [
    { compare: [compareOf(before ?? { type: type.name, id: next.id, revision: 0 })], then: [putOp(type, next)] },
  ];
  if (oldName !== newName) {
    if (oldName !== undefined) pieces.push(releaseName(type.name, oldName));
    if (newName !== undefined) pieces.push(claimName(type.name, newName, next.id));
  }
  return mergePieces(pieces);
}

export function removePiece<Spec, Status, SpecInput>(
  type: ResourceType<string, Spec, Status, SpecInput>,
  current: Resource<Spec, Status>,
): Piece {
  const name = type.nameOf?.(current.spec);
  const removal: Piece = { compare: [compareOf(current)], then: [{ delete: resourceKey(type.name, current.id) }] };
  return name === undefined ? removal : mergePieces([removal, releaseName(type.name, name)]);
}

export function mergePieces(pieces: readonly Piece[]): Piece {
  return {
    compare: pieces.flatMap((piece) => piece.compare ?? []),
    then: pieces.flatMap((piece) => piece.then ?? []),
  };
}

/** The transaction whose else branch reads what was compared, so that a refusal can be explained. */
export function transactionOf(piece: Piece): Transaction {
  const compare = piece.compare ?? [];
  return { compare, then: piece.then ?? [], else: compare.map(({ key }) => ({ get: key })) };
}

/** Which compare of a refused transaction failed, given the else branch's reads. */
export function failedCompare(piece: Piece, reads: readonly (readonly Entry[])[]): Compare | undefined {
  return (piece.compare ?? []).find((compare, index) => {
    const entry = reads[index]?.[0];
    if ('modRevision' in compare) return (entry?.modRevision ?? 0) !== compare.modRevision;
    return (entry?.createRevision ?? 0) !== compare.createRevision;
  });
}

/** What to tell whoever asked for the refused change. */
export function conflictOf(compare: Compare | undefined): FlynnError {
  // Its state was one that refused, and a moment later one that would not have: only reading again helps.
  if (compare === undefined) return new FlynnError('conflict', 'something was changed at the same time: try again');
  const { key } = compare;
  const mustBeNew = 'modRevision' in compare ? compare.modRevision === 0 : compare.createRevision === 0;
  const detail = { key };
  const [, root, kind, type, ...rest] = key.split('/');
  const what = `${type} "${rest.join('/')}"`;
  if (root === 'flynn' && kind === 'name' && mustBeNew) {
    return new FlynnError('conflict', `there is already a ${what}: choose another name`, { detail });
  }
  if (root === 'flynn' && kind === 'resource') {
    return mustBeNew
      ? new FlynnError('conflict', `there is already a ${what}`, { detail })
      : new FlynnError('conflict', `${what} was changed at the same time: read it again and repeat the change`, {
          detail,
        });
  }
  return new FlynnError('conflict', `the change depends on ${key}, which is not as expected: read it again and retry`, {
    detail,
  });
}
