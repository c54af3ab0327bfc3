/** The platform's images on every host: whichever hosts are lost, those that are left can run it. */
import type { Logger } from '@flynn/kit/log';
import { retry } from '@flynn/kit/retry';
import type { TaskGroup } from '@flynn/kit/tasks';
import { openMirror } from '@flynn/store/mirror';
import type { Operation, Store } from '@flynn/store/store';
import { z } from 'zod';
import type { Engine } from '../engine/engine.ts';

const prefix = '/flynn/cluster/images/';
const key = 'platform';
const schema = z.array(z.string().min(1));
/** Then the next names count, if there are others by now. */
const fetchMs = 5 * 60_000;

/** Written by whoever brings the platform up to date. */
export function platformImagesPut(names: readonly string[]): Operation {
  return { put: `${prefix}${key}`, value: JSON.stringify(names) };
}

/** Answers the names as they are at the moment, which are never collected; fetches what is missing in the group. */
export async function startPlatformImages(
  deps: { store: Store; engine: Engine; log: Logger },
  tasks: TaskGroup,
): Promise<() => readonly string[]> {
  const { store, engine, log } = deps;
  const { signal } = tasks;
  const images = await openMirror({ store, prefix, decode: (json) => schema.parse(json), log, signal });
  const names = (): readonly string[] => images.snapshot.entries.get(key)?.value ?? [];
  tasks.run('platform images', async (limit) => {
    for await (const { entries } of images.changes({ signal: limit })) {
      const wanted = entries.get(key)?.value ?? [];
      await retry((attempt) => engine.prefetchImages(wanted, { signal: attempt }), {
        what: 'fetching the images of the platform',
        deadlineMs: fetchMs,
        minMs: 2_000,
        maxMs: 60_000,
        isRetryable: () => true,
        signal: limit,
      }).catch((error: unknown) => {
        // They are fetched when they are needed, then.
        if (!limit.aborted) log.warn({ err: error }, 'the images of the platform are not all here');
      });
    }
  });
  return names;
}
