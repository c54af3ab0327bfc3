/** Is a change of routes in force at every router? */
import { integer } from '@flynn/kit/config';
import { FlynnError } from '@flynn/kit/errors';
import { z } from 'zod';
import type { Deps } from '../deps.ts';

const maxWaitMs = 20_000;

/** Of calls that change routes. */
export const waitQuery = z.object({
  /** Answered once every router says that it has the change, after so many milliseconds at the latest. Default: at once. */
  wait: integer.pipe(z.int().min(1).max(maxWaitMs)).optional(),
});

type ChangedRoute = { id: string; /** Without: it was removed. */ revision?: number | undefined };

/** Addresses of the routers that did not say so in time. */
export async function missingRouters(
  { routers }: Pick<Deps, 'routers'>,
  changed: readonly ChangedRoute[],
  options: { deadlineMs: number; signal: AbortSignal },
): Promise<string[]> {
  const routes = changed.map(({ id, revision }) => (revision === undefined ? { id } : { id, revision }));
  return routers.missing({ routes }, options);
}

/**
 * What was changed stays. Throws `timeout`, with the addresses, if whoever asked wanted to wait for all and some did not say
 * so.
 */
export async function reached(
  deps: Pick<Deps, 'routers'>,
  changed: readonly ChangedRoute[],
  { query, signal }: { query: z.output<typeof waitQuery>; signal: AbortSignal },
): Promise<void> {
  const { wait } = query;
  if (wait === undefined) return;
  const missing = await missingRouters(deps, changed, { deadlineMs: wait, signal });
  if (missing.length === 0) return;
  throw new FlynnError(
    'timeout',
    `the change is made, but not all routers said within ${wait} ms that they have it: ${missing.join(', ')}; ` +
      'it comes into force there as soon as they reach the controller',
    { detail: { missing } },
  );
}
