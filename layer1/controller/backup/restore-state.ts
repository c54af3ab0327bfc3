/** How far is a restore? Kept in the store it is of, so that whoever goes on with it, or has to wait for it, knows. */
import { FlynnError } from '@flynn/kit/errors';
import { eitherCommand } from '@flynn/kit/operator-commands';
import { decodeJson } from '@flynn/store/codec';
import type { Compare, Store } from '@flynn/store/store';
import { z } from 'zod';

const key = '/flynn/restore';
/** Everything of the controller is under it. */
const controllerPrefix = '/flynn/resource/';

/** `records` are written before there is a controller, `blobs` once there is a blob store, and then apps go live. */
const stages = ['records', 'blobs', 'apps', 'complete'] as const;
export type Stage = (typeof stages)[number];

const stateSchema = z.object({
  /** The seal of the archive. */
  archive: z.string(),
  stage: z.enum(stages),
  startedAt: z.string(),
  endedAt: z.string().optional(),
});
type RestoreState = Readonly<z.output<typeof stateSchema>>;

export type Claim = Readonly<{ state: RestoreState; compare: Compare }>;

export async function findRestore(store: Store, options: { signal?: AbortSignal } = {}): Promise<Claim | undefined> {
  const entry = await store.get(key, options);
  if (entry === undefined) return undefined;
  return { state: decodeJson(stateSchema, entry.value, key), compare: { key, modRevision: entry.modRevision } };
}

/** Whether something is still to come that others may not miss. */
export async function isRestoring(store: Store, options: { signal?: AbortSignal } = {}): Promise<boolean> {
  const found = await findRestore(store, options);
  return found !== undefined && found.state.stage !== 'complete';
}

/** `conflict` in the middle of a restore: what there is of the cluster is no whole one. */
export async function checkRestored(store: Store, options: { signal?: AbortSignal } = {}): Promise<void> {
  if (!(await isRestoring(store, options))) return;
  throw new FlynnError('conflict', 'a backup is being restored onto this cluster: go on with that first');
}

/** The store is this archive's from now on, or was. `conflict` if it is not empty, or another archive's. */
export async function claimStore(
  store: Store,
  archive: string,
  options: { nowMs: number; signal: AbortSignal },
): Promise<Claim> {
  const { signal, nowMs } = options;
  const before = await findRestore(store, { signal });
  if (before?.state.archive === archive) return before;
  if (before !== undefined && before.state.stage !== 'complete') {
    throw new FlynnError(
      'conflict',
      `another backup is being restored here: go on with that one, or take the cluster down with ${eitherCommand('down')}`,
    );
  }
  const { entries } = await store.list(controllerPrefix, { newest: 1, signal });
  if (before !== undefined || entries.length > 0) {
    throw new FlynnError(
      'conflict',
      'the cluster is not empty: a backup is restored onto one that nothing was made on yet',
    );
  }
  const startedAt = new Date(nowMs).toISOString();
  const state: RestoreState = { archive, stage: 'records', startedAt };
  const { succeeded } = await store.transact(
    { compare: [{ key, modRevision: 0 }], then: [{ put: key, value: JSON.stringify(state) }] },
    { signal },
  );
  const claim = await findRestore(store, { signal });
  if (!succeeded || claim === undefined) {
    throw new FlynnError('conflict', 'somebody else restores a backup onto this cluster at this moment');
  }
  return claim;
}

export async function enterStage(
  store: Store,
  stage: Stage,
  options: { nowMs: number; signal: AbortSignal },
): Promise<void> {
  const { nowMs, signal } = options;
  const found = await findRestore(store, { signal });
  if (found === undefined) throw new FlynnError('not_found', 'no backup is being restored onto this cluster');
  const ended = stage === 'complete' ? { endedAt: new Date(nowMs).toISOString() } : {};
  const { succeeded } = await store.transact(
    {
      compare: [found.compare],
      then: [{ put: key, value: JSON.stringify({ ...found.state, stage, ...ended }) }],
    },
    { signal },
  );
  if (!succeeded) throw new FlynnError('conflict', 'somebody else restores a backup onto this cluster at this moment');
}
