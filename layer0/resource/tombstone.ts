/** What an object leaves behind that may have owned others: for as long as it takes to delete those. */
import { z } from 'zod';
import { draftOf } from './change.ts';
import type { Piece } from './piece.ts';
import { putOp } from './record.ts';
import { defineType } from './type.ts';
import type { AnyType, Owner, Resource } from './type.ts';

export const tombstoneType = defineType({
  name: 'tombstone',
  version: 1,
  /** Whose it is. */
  spec: z.object({ type: z.string(), id: z.string(), uid: z.string() }),
  status: z.object({}),
  initialStatus: () => ({}),
  immutable: ['type', 'id', 'uid'],
  cascades: false,
});

/** Condition `FirstPassCompleted`: what was owned when the owner went has been deleted. */
export const firstPass = 'FirstPassCompleted';

/** Condition `OwnedReadable`: False while something says that it was owned, and cannot be read. It is not told before. */
export const ownedReadable = 'OwnedReadable';

/** Goes into the transaction that removes the object, so that there is no moment without either. */
export function tombstonePiece(type: AnyType, gone: Resource<unknown, unknown>, at: string): Piece {
  if (!type.cascades) return {};
  const { id, uid } = gone;
  const tombstone = draftOf(
    tombstoneType,
    { id: tombstoneId(type.name, uid), spec: { type: type.name, id, uid } },
    { newId: () => uid, at },
  );
  return { then: [putOp(tombstoneType, tombstone)] };
}

export function tombstoneId(type: string, uid: string): string {
  return `${type}:${uid}`;
}

/** Whether the object's owner is the one meant: an object made later under its id is not, where uids are known. */
export function isOwnedBy(resource: Pick<Resource<unknown, unknown>, 'owner'>, wanted: Owner): boolean {
  const { owner } = resource;
  if (owner === undefined || owner.type !== wanted.type || owner.id !== wanted.id) return false;
  return owner.uid === undefined || wanted.uid === undefined || owner.uid === wanted.uid;
}
