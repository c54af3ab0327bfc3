/** SSH public keys that may push. A key's id is its digest, so the same key is there once. */
import { hasCode, FlynnError } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { keys } from './api.ts';
import { principalOf } from '../access/principal.ts';
import type { Principal } from '../access/principal.ts';
import type { Deps } from '../deps.ts';
import type { Key } from '../model.ts';
import { pageOf } from '../paging.ts';
import { userType } from '../access/resources.ts';
import { keyType } from '../resources.ts';
import type { KeyResource } from '../resources.ts';
import { parseSshKey } from './ssh-key.ts';
import { viewKey } from '../views.ts';

export function keyHandlers({ resources }: Deps): Handler[] {
  return [
    handle(keys.create, async (call) =>
      viewKey(await addKey({ resources }, { text: call.body.publicKey, ...keyOwner(principalOf(call)) }, call.signal)),
    ),
    handle(keys.list, async (call) => {
      const principal = principalOf(call);
      const all = await resources.list(keyType, { signal: call.signal, where: (key) => isOwn(principal, key) });
      const sorted = all.toSorted((a, b) => (a.createdAt < b.createdAt ? -1 : a.createdAt > b.createdAt ? 1 : 0));
      const page = pageOf(sorted.map(viewKey), call.query, ({ fingerprint }) => fingerprint);
      return withOwners(page, { resources }, call.signal);
    }),
    handle(keys.get, async ({ params, signal }) => {
      const key = await resources.find(keyType, keyIdOf(params.fingerprint), { signal });
      if (key === undefined) throw noKey(params.fingerprint);
      return viewKey(key);
    }),
    handle(keys.remove, async (call) => {
      const { params, signal } = call;
      const known = await resources.find(keyType, keyIdOf(params.fingerprint), { signal });
      if (known === undefined || !isOwn(principalOf(call), known)) throw noKey(params.fingerprint);
      try {
        await resources.delete(keyType, keyIdOf(params.fingerprint), { signal });
      } catch (error) {
        throw hasCode(error, 'not_found') ? noKey(params.fingerprint) : error;
      }
    }),
  ];
}

/** The same key again is fine. Without a user it is the cluster's own. */
export async function addKey(
  { resources }: Pick<Deps, 'resources'>,
  { text, userId }: { text: string; userId?: string },
  signal: AbortSignal,
): Promise<KeyResource> {
  const { fingerprint, publicKey, comment } = parseSshKey(text);
  const id = keyIdOf(fingerprint);
  const spec = { fingerprint, publicKey, comment, ...(userId === undefined ? {} : { userId }) };
  try {
    return await resources.create(keyType, { id, spec }, { signal });
  } catch (error) {
    if (!hasCode(error, 'conflict')) throw error;
    const known = await resources.get(keyType, id, { signal });
    if (known.spec.userId === userId) return known;
    // One key is one person: with two, nobody could tell whose push it was.
    throw new FlynnError('conflict', `the key ${fingerprint} is somebody else's: use another, or have it removed`);
  }
}

/** What is pushed with a key is its owner's act, with all that they may: no token that is good for less makes one. */
export function keyOwner({ isAdmin, ownUserId }: Principal): { userId?: string } {
  if (ownUserId !== undefined) return { userId: ownUserId };
  if (isAdmin) return {};
  throw new FlynnError(
    'denied',
    'this token is good for less than its owner, and an SSH key pushes with all they may: add it with a token without --scope and --only, as "flynn login" or an admin gives one',
  );
}

async function withOwners(
  found: readonly Key[],
  { resources }: Pick<Deps, 'resources'>,
  signal: AbortSignal,
): Promise<Key[]> {
  const isAnybodys = found.some(({ userId }) => userId !== undefined);
  const users = isAnybodys ? await resources.list(userType, { signal }) : [];
  const names = new Map(users.map(({ id, spec }) => [id, spec.name]));
  return found.map((key) => (key.userId === undefined ? key : { ...key, user: names.get(key.userId) ?? key.userId }));
}

function isOwn({ isAdmin, ownUserId }: Principal, key: KeyResource): boolean {
  return isAdmin || (ownUserId !== undefined && key.spec.userId === ownUserId);
}

/** A fingerprint holds slashes, an id must not. */
export function keyIdOf(fingerprint: string): string {
  const digest = /^SHA256:([A-Za-z0-9+/]{43})=?$/.exec(fingerprint)?.[1];
  if (digest === undefined) {
    throw new FlynnError(
      'invalid',
      `"${fingerprint}" is not a fingerprint: it looks like SHA256:… as ssh-keygen -l prints it`,
    );
  }
  return Buffer.from(digest, 'base64').toString('hex');
}

function noKey(fingerprint: string): FlynnError {
  return new FlynnError('not_found', `there is no key ${fingerprint}; list them with: flynn key`);
}
