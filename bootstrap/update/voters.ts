/** Does the store keep its majority while hosts start their members of it anew, one after the other? */
import { dirname, join } from 'node:path';
import { memberPrefix, memberSchema } from '@flynn/host-agent/cluster/member-keys';
import { type UpdateRecord, readUpdate } from '@flynn/host-agent/update/record';
import { FlynnError } from '@flynn/kit/errors';
import { decodeJson } from '@flynn/store/codec';
import type { Store } from '@flynn/store/store';
import { readBundle, root } from '../origin.ts';
import { withStore } from '../platform/controller.ts';
import { readEtcdImage } from '../platform/etcd.ts';
import { type Place, hostsOf } from './host-move.ts';

/** Hosts that are away and without whose votes there is no majority while one more is starting; none where there is. */
export function missingVoters(voters: readonly string[], there: ReadonlySet<string>): readonly string[] {
  const away = voters.filter((id) => !there.has(id));
  const majority = Math.floor(voters.length / 2) + 1;
  const isEnough = voters.length - away.length - 1 >= majority;
  return away.length === 0 || isEnough ? [] : away;
}

/** As it is now. This host is there, whatever its agent does: its own steps bring that back. */
export async function missingIn(store: Store, ownId: string): Promise<readonly string[]> {
  const [{ entries }, hosts] = await Promise.all([store.list(memberPrefix), hostsOf(store)]);
  const voters = entries
    .filter(({ key, value }) => decodeJson(memberSchema, value, key).state === 'voter')
    .map(({ key }) => key.slice(memberPrefix.length));
  return missingVoters(voters, new Set([ownId, ...hosts.map(({ id }) => id)]));
}

/** Of a version that is installed here. */
function etcdImageOf(version: string): string | undefined {
  return readBundle(join(dirname(root), version))?.images['etcd'];
}

/**
 * Whether members may be of another image than the one that they are to have. `told` is what the store says: it is told before the
 * first host's turn, so of an update that is not through some may still be of the version before, whose image is `of` that.
 */
export function isRestart(
  image: string,
  told: string | undefined,
  begun: Pick<UpdateRecord, 'version' | 'previous'> | undefined,
  of: (version: string) => string | undefined = etcdImageOf,
): boolean {
  if (image !== told) return true;
  if (begun === undefined) return false;
  const { version, previous } = begun;
  return previous === undefined || [version, previous].some((one) => of(one) !== image);
}

/**
 * `conflict` where a member is away, the version has another image of the store, and a host's turn would take the majority: what
 * a member that does not come up needs to go back is in the store.
 */
export async function checkVoters(place: Place, version: string): Promise<void> {
  const image = etcdImageOf(version);
  if (image === undefined) return;
  const begun = await readUpdate(place.stateDir);
  const missing = await withStore(place, async (store) => {
    if (!isRestart(image, await readEtcdImage(store), begun)) return [];
    return missingIn(store, place.cluster.hostId);
  });
  if (missing.length === 0) return;
  const [are, them] = missing.length === 1 ? ['is', 'it'] : ['are', 'them'];
  const remove = missing.map((id) => `flynn host remove ${id}`).join(', ');
  throw new FlynnError(
    'conflict',
    `the store has a member on ${missing.join(', ')}, which ${are} away, and version ${version} starts the others anew, one after the other: in each one's turn the store would have no majority, and jobs with volumes would stop. Bring ${them} back, or, gone for good, ${remove}: another host takes the place. --stay goes on all the same, without a way back. Nothing was changed`,
  );
}
