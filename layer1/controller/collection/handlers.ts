import { FlynnError } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import type { Deps } from '../deps.ts';
import { collections } from './api.ts';
import type { BlobCollector } from './blob-collection.ts';
import { collectAll } from './rounds.ts';
import { forgetUnreadable } from './unreadable-records.ts';

export function collectionHandlers(deps: Deps, blobs: BlobCollector): Handler[] {
  return [
    handle(collections.run, async ({ signal }) => {
      const collected = await collectAll(deps, blobs, { signal });
      if (collected !== 'clock is ahead') return collected;
      throw new FlynnError(
        'conflict',
        `nothing is collected: it is ${new Date(deps.now()).toISOString()} by the clock of this controller's host, and no collection of the twelve hours before is known. If that is right, there is one by itself within a day; if it is not, put the clock right`,
      );
    }),
    handle(collections.forget, async ({ body, signal }) => {
      await forgetUnreadable(deps, body.key, signal);
      deps.log.warn({ entry: body.key }, 'a record that could not be read was deleted, as somebody said');
    }),
  ];
}
