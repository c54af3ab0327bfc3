/** Another primary for a datastore: because somebody asks for one, or because the host of the one it has is to be left. */
import type { Appliance } from '@flynn/appliances/appliance';
import { appliances } from '@flynn/appliances/appliances';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { withDeadline } from '@flynn/kit/retry';
import type { Again } from '@flynn/resource/reconciler';
import type { OperatorSettings } from '@flynn/scheduler/cell';
import type { SeenStatus } from '@flynn/scheduler/lost-jobs';
import { z } from 'zod';
import { statusesOfApp } from '../cell-view.ts';
import type { Deps } from '../deps.ts';
import { appType } from '../resources.ts';
import type { AppResource } from '../resources.ts';
import { membersOf } from './description.ts';
import { outputOf } from './program.ts';

/** Less than after what a router takes a backend for dead; a second more than its program tries. */
const switchoverMs = 27_000;
/** A copy that has yet to catch up is waited for. */
const againMs = 5_000;

const switchedSchema = z.object({ from: z.string().nullable(), to: z.string() });

/**
 * Another member is the primary once it resolves: that on the host `to`, else the one its members take. Hosts, of the addresses
 * that members know each other by. Throws `not_found` where no member is up there, `unavailable` where none is, `conflict` with
 * what its program says.
 */
export async function switchOver(
  deps: Pick<Deps, 'cell' | 'hosts'>,
  { app, appliance }: { app: AppResource; appliance: Appliance },
  to: string | undefined,
  signal: AbortSignal,
): Promise<{ from?: string; to: string }> {
  const members = membersOf(appliance, statusesOfApp(deps.cell, app.id));
  const wanted = to === undefined ? undefined : members.find(({ hostId }) => hostId === to);
  if (to !== undefined && wanted?.address === undefined) {
    const hosts = members.map(({ hostId }) => hostId).join(', ');
    throw new FlynnError(
      'not_found',
      `${app.spec.name} has no member that is up on ${to}: there are ${hosts || 'none'}`,
    );
  }
  // That which is to be the primary is not about to be restarted.
  const [first] = members;
  const asked = wanted ?? first;
  if (asked === undefined) {
    throw new FlynnError('unavailable', `${app.spec.name} has no member that is up: flynn ps -a ${app.spec.name}`);
  }
  const address = wanted?.address === undefined ? [] : [wanted.address];
  const command = [...appliance.commands.switchover, ...address];
  const text = await outputOf(deps.hosts, asked, command, withDeadline(switchoverMs, signal));
  const { from, to: now } = switchedSchema.parse(JSON.parse(text));
  const hostAt = (known: string) => members.find((member) => member.address === known)?.hostId ?? known;
  return { ...(from === null ? {} : { from: hostAt(from) }), to: hostAt(now) };
}

/**
 * The primary is on a host that drains, and another member is up on one that does not: from where to where. `to` is left to its
 * members where all others will do. Pure.
 */
export function leavingOf(
  members: readonly SeenStatus[],
  drains: (hostId: string) => boolean,
): { from: string; to?: string } | undefined {
  const up = members.filter(({ state, isUncertain }) => state === 'running' && !isUncertain);
  const primary = up.find(({ goesLast, hostId }) => goesLast === true && drains(hostId));
  const others = up.filter((one) => one !== primary);
  const staying = others.find(({ hostId }) => !drains(hostId));
  if (primary === undefined || staying === undefined) return undefined;
  const isAny = !others.some(({ hostId }) => drains(hostId));
  return { from: primary.hostId, ...(isAny ? {} : { to: staying.hostId }) };
}

/**
 * Where the member that is wanted may lack what was committed its program refuses it: then to whichever does not, once, from where
 * the next look moves on.
 */
export async function preferring<T>(to: string | undefined, handOver: (to?: string) => Promise<T>): Promise<T> {
  try {
    return await handOver(to);
  } catch (error) {
    if (to === undefined || !hasCode(error, 'conflict')) throw error;
    return handOver();
  }
}

/** One look at the datastore of that app: a drain moves no member from its data, and its primary is to be another all the same. */
export async function leaveDraining(deps: Deps, appId: string, signal: AbortSignal): Promise<void | Again> {
  const app = await deps.resources.find(appType, appId, { signal });
  const appliance = appliances.get(app?.spec.datastore?.appliance ?? '');
  if (app === undefined || app.deletingSince !== undefined || appliance === undefined) return undefined;
  const settings: ReadonlyMap<string, { value: OperatorSettings }> = deps.cell.settings.snapshot.entries;
  const drains = (hostId: string) => settings.get(hostId)?.value.drain !== undefined;
  const statuses = statusesOfApp(deps.cell, app.id).filter(({ meta }) => meta['flynn.type'] === appliance.name);
  // Until its drain is over it may become so again, or be one that is not up yet.
  const isAnyLeaving = statuses.some(({ hostId, isFinal }) => !isFinal && drains(hostId));
  const leaving = leavingOf(statuses, drains);
  if (leaving === undefined) return isAnyLeaving ? { againInMs: againMs } : undefined;
  const datastore = app.spec.name;
  try {
    const { to } = await preferring(leaving.to, (wanted) => switchOver(deps, { app, appliance }, wanted, signal));
    deps.log.info(
      { datastore, from: leaving.from, to },
      'another member is the primary: the host of the one before drains',
    );
  } catch (error) {
    signal.throwIfAborted();
    if (!hasCode(error, 'conflict', 'unavailable', 'not_found', 'timeout')) throw error;
    deps.log.warn({ err: error, datastore, host: leaving.from }, 'a primary cannot leave its host that drains yet');
  }
  return { againInMs: againMs };
}
