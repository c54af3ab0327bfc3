/** SSH public keys that may push. A key's id is its digest, so the same key is there once. */
import { hasCode, FlynnError } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { keys } from './api.ts';
import type { Deps } from './deps.ts';
import { keyType } from './resources.ts';
import { parseSshKey } from './ssh-key.ts';
import { viewKey } from './views.ts';

export function keyHandlers({ resources }: Deps): Handler[] {
  return [
    handle(keys.create, async ({ body, signal }) => viewKey(await addKey({ resources }, body.publicKey, signal))),
    handle(keys.list, async ({ signal }) => {
      const all = await resources.list(keyType, { signal });
      return all.toSorted((a, b) => (a.createdAt < b.createdAt ? -1 : a.createdAt > b.createdAt ? 1 : 0)).map(viewKey);
    }),
    handle(keys.get, async ({ params, signal }) => {
      const key = await resources.find(keyType, keyIdOf(params.fingerprint), { signal });
      if (key === undefined) throw noKey(params.fingerprint);
      return viewKey(key);
    }),
    handle(keys.remove, async ({ params, signal }) => {
      try {
        await resources.delete(keyType, keyIdOf(params.fingerprint), { signal });
      } catch (error) {
        throw hasCode(error, 'not_found') ? noKey(params.fingerprint) : error;
      }
    }),
  ];
}

/** The same key again is fine. */
export async function addKey({ resources }: Pick<Deps, 'resources'>, text: string, signal: AbortSignal) {
  const { fingerprint, publicKey, comment } = parseSshKey(text);
  const id = keyIdOf(fingerprint);
  try {
    return await resources.create(keyType, { id, spec: { fingerprint, publicKey, comment } }, { signal });
  } catch (error) {
    if (!hasCode(error, 'conflict')) throw error;
    return resources.get(keyType, id, { signal });
  }
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
