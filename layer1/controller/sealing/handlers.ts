import { FlynnError } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { eitherCommand } from '@flynn/kit/operator-commands';
import { addKey, readRing } from '@flynn/store/sealing/ring';
import type { Ring } from '@flynn/store/sealing/ring';
import type { Deps } from '../deps.ts';
import { sealingKeys } from './api.ts';
import type { Sealing } from './api.ts';

export function sealingHandlers({ store, sealed, now, newId }: Deps): Handler[] {
  return [
    handle(sealingKeys.list, async ({ signal }) => viewRing((await readRing(store, { signal }))?.ring)),
    handle(sealingKeys.rotate, async ({ signal }) => {
      const known = (await sealed?.sealingKeys()) ?? [];
      if (known.length === 0) {
        throw new FlynnError(
          'conflict',
          `this controller was given no sealing key: ${eitherCommand('up')} gives it one`,
        );
      }
      return viewRing(await addKey(store, { sealingKeys: known, newId, now: new Date(now()) }, { signal }));
    }),
  ];
}

function viewRing(ring: Ring | undefined): Sealing {
  if (ring === undefined) return { state: 'clear', keys: [] };
  const { current, rewriting } = ring;
  const keys = ring.keys.map(({ id, madeAt }) => ({ id, madeAt, isCurrent: id === current }));
  return rewriting === undefined ? { state: 'sealed', keys } : { state: 'changing', since: rewriting.since, keys };
}
