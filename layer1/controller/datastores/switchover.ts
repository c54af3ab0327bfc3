/** Another primary for a datastore: because somebody asks for one, or because the host of the one it has is to be left. */
import type { Appliance } from '@flynn/appliances/appliance';
import { appliances } from '@flynn/appliances/appliances';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { withDeadline } from '@flynn/kit/retry';
import type { Again } from '@flynn/resource/reconciler';
import type { SeenStatus } from '@flynn/scheduler/lost-jobs';
import { z } from 'zod';
import { statusesOfApp } from '../mirrors/cell-view.ts';
import type { CellView } from '../mirrors/cell-view.ts';
import type { Deps } from '../deps.ts';
import { appType } from '../resources.ts';
import type { AppResource } from '../resources.ts';
import { membersOf } from './description.ts';
import { outputOf } from './program.ts';

/** Less than after what a router takes a backend for dead; a second more than its program tries. */
const switchoverMs = 27_000;
const againMs = 5_000;
/** Where every copy has yet to catch up: while one is waited for, commits wait for all of them. */
const refusedAgainMs = 30_000;

/** Whichever of its members is fit. */
export const anyMember = Symbol('any member');

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
  const text = await outputOf(deps.hosts, asked, { command }, withDeadline(switchoverMs, signal));
  const { from, to: now } = switchedSchema.parse(JSON.parse(text));
  const hostAt = (known: string) => members.find((member) => member.address === known)?.hostId ?? known;
  return { ...(from === null ? {} : { from: hostAt(from) }), to: hostAt(now) };
}

/**
 * The primary is on a host that drains: from where, and to which hosts it may go. Without `to` it stays: no other member is up on a
 * host that does not drain. `anyMember` where its members may choose among all others. Pure.
 */
export function leavingOf(
  members: readonly SeenStatus[],
  drains: (hostId: string) => boolean,
): { from: string; to?: readonly string[] | typeof anyMember } | undefined {
  const up = members.filter(({ state, isUncertain }) => state === 'running' && !isUncertain);
  const primary = up.find(({ goesLast, hostId }) => goesLast === true && drains(hostId));
  if (primary === undefined) return undefined;
  const others = up.filter((one) => one !== primary);
  const staying = others.flatMap(({ hostId }) => (drains(hostId) ? [] : [hostId]));
  if (staying.length === 0) return { from: primary.hostId };
  return { from: primary.hostId, to: staying.length === others.length ? anyMember : staying };
}

/** Why a primary is on a host that drains, and what it waits for; undefined where it is on none. Pure. */
export function stayOf(
  datastore: string,
  members: readonly SeenStatus[],
  drains: (hostId: string) => boolean,
): { hostId: string; text: string } | undefined {
  const leaving = leavingOf(members, drains);
  if (leaving === undefined) return undefined;
  const { from: hostId, to } = leaving;
  const primary = `the primary of ${datastore}`;
  if (to === undefined)
    return { hostId, text: `${primary} stays: no other member is up on a host that does not drain` };
  const where = to === anyMember ? 'another member' : `the member on ${to.join(' or ')}`;
  return { hostId, text: `${primary} leaves for ${where} once that has all that was committed` };
}

/** Of every datastore whose primary is on that host although it drains: why. */
export function staysOn(cell: CellView, hostId: string, all: readonly AppResource[]): string[] {
  return all.flatMap(({ id, spec }) => {
    const appliance = appliances.get(spec.datastore?.appliance ?? '');
    if (appliance === undefined) return [];
    const { statuses, drains } = membersSeen(cell, id, appliance);
    const stay = stayOf(spec.name, statuses, drains);
    return stay?.hostId === hostId ? [stay.text] : [];
  });
}

function membersSeen(cell: CellView, appId: string, appliance: Appliance) {
  const settings = cell.settings.snapshot.entries;
  return {
    statuses: statusesOfApp(cell, appId).filter(({ meta }) => meta['flynn.type'] === appliance.name),
    drains: (hostId: string) => settings.get(hostId)?.value.drain !== undefined,
  };
}

/** One look at the datastore of that app: a drain moves no member from its data, and its primary is to be another all the same. */
export async function leaveDraining(deps: Deps, appId: string, signal: AbortSignal): Promise<void | Again> {
  const app = await deps.resources.find(appType, appId, { signal });
  const appliance = appliances.get(app?.spec.datastore?.appliance ?? '');
  if (app === undefined || app.deletingSince !== undefined || appliance === undefined) return undefined;
  const { statuses, drains } = membersSeen(deps.cell, app.id, appliance);
  // Until its drain is over it may become so again, or be one that is not up yet.
  const isAnyLeaving = statuses.some(({ hostId, isFinal }) => !isFinal && drains(hostId));
  const leaving = leavingOf(statuses, drains);
  // To another host that drains it is not moved: it would be from there again, and back.
  if (leaving?.to === undefined) return isAnyLeaving ? { againInMs: againMs } : undefined;
  const { from } = leaving;
  const datastore = app.spec.name;
  for (const wanted of leaving.to === anyMember ? [undefined] : leaving.to) {
    try {
      const { to } = await switchOver(deps, { app, appliance }, wanted, signal);
      deps.log.info({ datastore, from, to }, 'another member is the primary: the host of the one before drains');
      return { againInMs: againMs };
    } catch (error) {
      signal.throwIfAborted();
      if (!hasCode(error, 'conflict', 'unavailable', 'not_found', 'timeout')) throw error;
      const to = wanted === undefined ? {} : { to: wanted };
      deps.log.warn({ err: error, datastore, host: from, ...to }, 'a primary cannot leave its host that drains yet');
      // What was only refused another may be fit for; of what broke off it has to be seen first who is the primary now.
      if (!hasCode(error, 'conflict')) return { againInMs: againMs };
    }
  }
  return { againInMs: refusedAgainMs };
}
