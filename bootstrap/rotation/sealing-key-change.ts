/** The sealing key made anew: what `up` does to the store for it, each part of which may be repeated. */
import { addSealingKeys } from '@flynn/host-agent/cluster/sealing-keys';
import { FlynnError } from '@flynn/kit/errors';
import { newId } from '@flynn/kit/ids';
import { waitFor } from '@flynn/kit/retry';
import { sealKeyOf } from '@flynn/store/sealing/envelope';
import { readRing } from '@flynn/store/sealing/ring';
import { announceSealingKey, sealUnder } from '@flynn/store/sealing/sealing-key-change';
import type { Store } from '@flynn/store/store';
import { hostsOf } from '../update/host-move.ts';
import { commands } from '../origin.ts';
import { sealingKeysOf } from './sealing-key-round.ts';
import type { Cluster } from '../settings.ts';
import { type Report, timed } from '../steps/timed.ts';

/** Agents look every two seconds. */
const handedMs = 120_000;
/** The worker's walk takes a minute or two, once it has begun. */
const rewrittenMs = 15 * 60_000;

/** `conflict` where it may not begin, and then nothing was changed in the store. Else hosts fetch it from now on. */
export async function announceNext(store: Store, cluster: Cluster): Promise<void> {
  const stored = await readRing(store);
  const next = cluster.sealingKeyChange?.next;
  if (next === undefined) {
    // Of a store that was put back to a time when one was under way.
    if (stored?.ring.next !== undefined) await announceSealingKey(store, undefined);
    return;
  }
  const key = sealKeyOf(next);
  if (stored?.ring.next !== key.id) {
    const old = (await hostsOf(store)).filter(
      ({ id, sealingKeyIds }) => id !== cluster.hostId && sealingKeyIds === undefined,
    );
    if (old.length > 0) {
      const ids = old.map(({ id }) => id).join(', ');
      throw new FlynnError(
        'conflict',
        `${ids}: of a version that has the same sealing key for its life. Bring it up to date (${commands.up} there), then make the key anew. Nothing was changed`,
      );
    }
  }
  await announceSealingKey(store, key);
}

export type Handing = Readonly<{ stateDir: string; cluster: Cluster; report: Report }>;

/**
 * Once every host that is there has both keys, the ring is sealed under the new one. Called when all controllers have both.
 * `timeout`, and who has not is told: nothing is lost then, for all that is read is sealed under the former.
 */
export async function sealAnew(store: Store, { stateDir, cluster, report }: Handing): Promise<void> {
  const next = cluster.sealingKeyChange?.next;
  if (next === undefined) return;
  const sealingKey = sealKeyOf(next);
  let told = '';
  const probe = async (): Promise<boolean> => {
    // An agent that looked before the ring named it has taken it away as one that is out of use.
    await addSealingKeys(stateDir, sealingKeysOf(cluster));
    const hosts = await hostsOf(store);
    const without = hosts.filter(({ sealingKeyIds = [] }) => !sealingKeyIds.includes(sealingKey.id));
    if (without.length === 0) return true;
    const ids = without.map(({ id }) => id).join(', ');
    const what = `${ids} ${without.length === 1 ? 'has' : 'have'} the new sealing key not yet`;
    if (what !== told) report(what);
    told = what;
    throw new FlynnError('unavailable', what);
  };
  const what = 'waiting until all hosts have the new sealing key';
  await timed({ what, deadlineMs: handedMs + 5_000, report }, (signal) =>
    waitFor(probe, {
      what: 'all hosts to have the new sealing key',
      deadlineMs: handedMs,
      intervalMs: 500,
      signal,
    }),
  );
  const known = sealingKeysOf(cluster).map(sealKeyOf);
  await sealUnder(store, sealingKey, { known, newId, now: new Date() });
}

/** Until no secret is sealed with a key that the former sealing key opens. Broken off, the worker goes on by itself. */
export async function untilRewritten(store: Store, report: Report): Promise<void> {
  const what = 'sealing all secrets with new keys';
  await timed({ what, deadlineMs: rewrittenMs + 5_000, report }, (signal) =>
    waitFor(async () => (await readRing(store))?.ring.rewriting === undefined, {
      what: 'the worker to have sealed all secrets with new keys',
      deadlineMs: rewrittenMs,
      intervalMs: 1_000,
      signal,
    }),
  );
}
