/** What a datastore is brought to a moment by, of its records. */
import { appliances } from '@flynn/appliances/appliances';
import type { BlobClient } from '@flynn/blobstore/client';
import { pause, systemClock } from '@flynn/kit/clock';
import type { Clock } from '@flynn/kit/clock';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import type { Deps } from '../deps.ts';
import type { AppResource } from '../resources.ts';
import { recoveryTo } from './ranges.ts';
import type { Recovery } from './ranges.ts';
import { archiveType, historyType } from './types.ts';

const holdEveryMs = 3_600_000;
/** After what could not be asked. */
const holdSoonMs = 60_000;

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

/**
 * Who asks for a moment names a backup, too, that there is none of: a worker of before there were moments drops what it does not
 * know, and takes a restore without a backup for one of the newest.
 */
export function momentAsked(
  { id, spec }: Readonly<{ id: string; spec: Readonly<{ name: string }> }>,
  atMs: number,
): Readonly<{ at: string; backupId: string; from: string; fromId: string }> {
  const at = new Date(atMs).toISOString();
  return { at, backupId: `moment ${at}`, from: spec.name, fromId: id };
}

/**
 * Whoever reads for long, or waits for a member, finds all of it still: what was asked after is not collected for a day. Throws
 * `not_found` where one is gone. A host that has just gone keeps others' answers waiting, and they are read all the same.
 */
export async function holdBlobs(
  blobs: Pick<BlobClient, 'stat'>,
  { base, pieces }: Recovery,
  signal: AbortSignal,
  clock: Pick<Clock, 'sleep'> = systemClock,
): Promise<AsyncDisposable> {
  const ask = async (until: AbortSignal): Promise<void> => {
    for (const { digest } of [base, ...pieces]) await blobs.stat(digest, { signal: until });
  };
  let isHeld = true;
  try {
    await ask(signal);
  } catch (error) {
    signal.throwIfAborted();
    if (hasCode(error, 'not_found')) throw error;
    isHeld = false;
  }
  const over = new AbortController();
  const until = AbortSignal.any([signal, over.signal]);
  const asking = holdAgain(ask, { isHeld, until, clock });
  return {
    async [Symbol.asyncDispose]() {
      over.abort();
      await asking;
    },
  };
}

/** Resolves when the signal aborts. What fails is asked again: a day is many hours. */
async function holdAgain(
  ask: (until: AbortSignal) => Promise<void>,
  { isHeld: isAsked, until, clock }: { isHeld: boolean; until: AbortSignal; clock: Pick<Clock, 'sleep'> },
): Promise<void> {
  let isHeld = isAsked;
  while (!until.aborted) {
    await pause(isHeld ? holdEveryMs : holdSoonMs, until, clock);
    if (until.aborted) return;
    isHeld = await ask(until).then(
      () => true,
      () => false,
    );
  }
}

export function withoutHistory({ spec }: Pick<AppResource, 'spec'>): FlynnError {
  return new FlynnError(
    'invalid',
    `${spec.name} is of a kind (${spec.datastore?.appliance ?? 'none'}) of which no moments are kept: its backups are what one can go back to`,
  );
}
