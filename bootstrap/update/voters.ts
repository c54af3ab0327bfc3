/** Does the store keep its majority while hosts start their members of it anew, one after the other? */
import { dirname, join } from 'node:path';
import { memberPrefix, memberSchema } from '@flynn/host-agent/cluster/member-keys';
import { readUpdate } from '@flynn/host-agent/update/record';
import { FlynnError } from '@flynn/kit/errors';
import { decodeJson } from '@flynn/store/codec';
import type { Store } from '@flynn/store/store';
import { readBundle, root } from '../origin.ts';
import { withStore } from '../platform/controller.ts';
import { readEtcdImage } from '../platform/etcd.ts';
import type { Host, Place } from './host-move.ts';

/** Hosts that are away and without whose votes there is no majority while one more is starting; none where there is. */
export function missingVoters(voters: readonly string[], there: ReadonlySet<string>): readonly string[] {
  const away = voters.filter((id) => !there.has(id));
  const majority = Math.floor(voters.length / 2) + 1;
  const isEnough = voters.length - away.length - 1 >= majority;
  return away.length === 0 || isEnough ? [] : away;
}

async function votersOf(store: Store): Promise<string[]> {
  const { entries } = await store.list(memberPrefix);
  return entries
    .filter(({ key, value }) => decodeJson(memberSchema, value, key).state === 'voter')
    .map(({ key }) => key.slice(memberPrefix.length));
}

/**
 * `conflict` where a member is away, the version has another image of the store, and a host's turn would take the majority: what
 * a member that does not come up needs to go back is in the store.
 */
export async function checkVoters(place: Place, hosts: readonly Host[], version: string): Promise<void> {
  const image = readBundle(join(dirname(root), version))?.images['etcd'];
  if (image === undefined) return;
  // The image is told before the first host's turn: of an update that is not through some members may be of the one before.
  const isBegun = (await readUpdate(place.stateDir)) !== undefined;
  const missing = await withStore(place, async (store) => {
    if (!isBegun && image === (await readEtcdImage(store))) return [];
    return missingVoters(await votersOf(store), new Set(hosts.map(({ id }) => id)));
  });
  if (missing.length === 0) return;
  const [are, them] = missing.length === 1 ? ['is', 'it'] : ['are', 'them'];
  const remove = missing.map((id) => `flynn host remove ${id}`).join(', ');
  throw new FlynnError(
    'conflict',
    `the store has a member on ${missing.join(', ')}, which ${are} away, and version ${version} starts the others anew, one after the other: in each one's turn the store would have no majority, and jobs with volumes would stop. Bring ${them} back, or, gone for good, ${remove}: another host takes the place. --stay goes on all the same, without a way back. Nothing was changed`,
  );
}
