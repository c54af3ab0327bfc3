/** May whoever asks do this with that object? The answer is the type's; without one only operators may. */
import { FlynnError } from '@flynn/kit/errors';
import type { AnyType, Owner, Resource } from './type.ts';

export type Role = 'viewer' | 'developer' | 'admin';

/** Who asks: what the types' hooks decide by. */
export type Asking = Readonly<{
  /** For messages: a person's or a token's name. */
  name: string;
  isOperator: boolean;
  /** Of a user: what is theirs is theirs. */
  userId?: string;
  /** The role on what this owner owns, an app say; without an owner, in the cluster. */
  roleOn: (owner: Owner | undefined) => Role | undefined;
}>;

/** Whoever holds the cluster's key. */
export const operator: Asking = Object.freeze({ name: 'operator', isOperator: true, roleOn: () => 'admin' as const });

const ranks: readonly Role[] = ['viewer', 'developer', 'admin'];

/** Whether the role, or a higher one, is held on what the owner owns. For hooks: `write: (asking, owner) => holds(…)`. */
export function holds(asking: Asking, role: Role, owner: Owner | undefined): boolean {
  const held = asking.roleOn(owner);
  return held !== undefined && ranks.indexOf(held) >= ranks.indexOf(role);
}

export function mayRead(type: AnyType, asking: Asking, resource: Resource<unknown, unknown>): boolean {
  return asking.isOperator || type.authorise?.read?.(asking, resource) === true;
}

/** Throws `denied`. What a list shows is still asked for one by one, with `mayRead`. */
export function checkList(type: AnyType, asking: Asking): void {
  if (asking.isOperator || type.authorise?.list?.(asking) === true) return;
  throw new FlynnError('denied', `${asking.name} may not list objects of kind ${type.kind}`);
}

/** Throws `denied`. */
export function checkWrite(
  type: AnyType,
  asking: Asking,
  owner: Owner | undefined,
  resource?: Resource<unknown, unknown>,
): void {
  if (asking.isOperator || type.authorise?.write?.(asking, owner, resource) === true) return;
  const of = owner === undefined ? '' : ` of ${owner.type} ${owner.id}`;
  throw new FlynnError('denied', `${asking.name} may not change objects of kind ${type.kind}${of}`);
}
