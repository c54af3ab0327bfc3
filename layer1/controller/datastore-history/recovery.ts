/** What a datastore is brought to a moment by, of its records. */
import { appliances } from '@flynn/appliances/appliances';
import { FlynnError } from '@flynn/kit/errors';
import type { Deps } from '../deps.ts';
import type { AppResource } from '../resources.ts';
import { recoveryTo } from './ranges.ts';
import type { Recovery } from './ranges.ts';
import { archiveType, historyType } from './types.ts';

/** Throws `invalid`, with what is kept, where that moment is not. */
export async function recoveryOf(
  { resources }: Pick<Deps, 'resources'>,
  app: AppResource,
  atMs: number,
  signal: AbortSignal,
): Promise<Recovery> {
  if (appliances.get(app.spec.datastore?.appliance ?? '')?.history === undefined) throw withoutHistory(app);
  const [history, archive] = await Promise.all([
    resources.find(historyType, app.id, { signal }),
    resources.find(archiveType, app.id, { signal }),
  ]);
  return recoveryTo(atMs, archive?.status ?? { bases: [], pieces: [] }, history?.status ?? { run: 0, recent: [] });
}

export function withoutHistory({ spec }: Pick<AppResource, 'spec'>): FlynnError {
  return new FlynnError(
    'invalid',
    `${spec.name} is of a kind (${spec.datastore?.appliance ?? 'none'}) of which no moments are kept: its backups are what one can go back to`,
  );
}
