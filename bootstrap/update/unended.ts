/** An update that was cut, by its power for instance: who goes on with it, and what is not done before it is through. */
import {
  type UpdateRecord,
  forgetUpdate,
  goOnCommands,
  readUpdate,
  writeUpdate,
} from '@flynn/host-agent/update/record';
import { FlynnError } from '@flynn/kit/errors';
import { setupOf, startAgentAsItIs } from '../agent/agent.ts';
import { ensureEngine } from '../machine/engine.ts';
import type { Cluster, Options } from '../settings.ts';

type Move = Pick<UpdateRecord, 'version' | 'previous'>;

/** `partly`: the same command goes on from where it was left. */
export type MoveOutcome = 'moved' | 'back' | 'partly';

/** Where it is left, or broken off, it is known to have begun. */
export async function asUpdate(
  stateDir: string,
  { version, previous }: Move,
  task: () => Promise<MoveOutcome>,
): Promise<MoveOutcome> {
  const other = otherVersion({ version, previous }, await readUpdate(stateDir));
  const since = new Date().toISOString();
  await writeUpdate(stateDir, { version, since, ...(other === undefined ? {} : { previous: other }) });
  const outcome = await task();
  if (outcome !== 'partly') await forgetUpdate(stateDir);
  return outcome;
}

/** Before the programs of the other version carry out the way back of one that failed. They write a record of their own. */
export async function beginReturn(stateDir: string): Promise<void> {
  const record = await readUpdate(stateDir);
  if (record !== undefined) await writeUpdate(stateDir, { ...record, isReturning: true });
}

/**
 * Whether anybody is to be told how it ended, by what was `left` before it. Not of one that found nothing to do, nor by the way
 * back that an update began when it failed: the update itself tells that.
 */
export function isNews(
  outcome: MoveOutcome,
  { isMove, left }: Readonly<{ isMove: boolean; left: UpdateRecord | undefined }>,
): boolean {
  return outcome !== 'moved' || isMove || (left !== undefined && left.isReturning !== true);
}

/**
 * The one that parts of the cluster may be of until it has moved: what is in use here; or, on the way back from an update that was
 * left, and where one that was cut goes on after this was put in use, that of which the record tells.
 */
export function otherVersion({ version, previous }: Move, left: UpdateRecord | undefined): string | undefined {
  return previous ?? (left?.version === version ? left.previous : left?.version);
}

/**
 * `conflict` for a plain `up` on the host that keeps the platform in the middle of an update: with the programs of the version
 * before it would undo the half of it that is done. What is there of the host is started all the same: going on needs it.
 */
export async function checkUpdated(
  options: Options,
  stored: Cluster | undefined,
  start: typeof startHost = startHost,
): Promise<void> {
  // What another host keeps by now it goes on with itself.
  if (stored?.hasPlatform !== true) return;
  const record = await readUpdate(options.FLYNN_STATE_DIR);
  if (record === undefined) return;
  await start(options, stored);
  throw new FlynnError(
    'conflict',
    `the update of the cluster to version ${record.version}, begun at ${record.since}, is not through: ${goOnCommands(record)}. Nothing was changed; the engine and the agent of this host run`,
  );
}

/** Without systemd nothing starts by itself after a power cut. */
async function startHost(options: Options, stored: Cluster): Promise<void> {
  await ensureEngine({ socket: options.FLYNN_DOCKER_SOCKET, stateDir: options.FLYNN_STATE_DIR });
  await startAgentAsItIs(setupOf(options, stored));
}
