/**
 * The root key, and the tokens of the platform's parts, which are made of it, are made anew while nobody is refused. Which
 * phase it is in is in cluster.json; the next `up` goes on with one that was broken off.
 *
 *     phase    controllers take            parts show       what calls the API from here shows
 *     opening  the former, then both too   former ones      the former key, which all controllers take all the while
 *     giving   both                        new ones, too    the same, and people's flynn command the new key
 *     closing  both, then the new alone    new ones         the new key, which all controllers take all the while
 *
 * Opening and giving are one in the file: the steps are done again from the first. Closing is written before any controller
 * gives up the former key. With new tokens alone there is one root key in all of it.
 */
import type { LiveKeys } from '@flynn/controller/access/live-keys';
import { FlynnError } from '@flynn/kit/errors';
import { newId } from '@flynn/kit/ids';
import { commands } from '../origin.ts';
import type { Cluster } from '../settings.ts';

/**
 * What is made anew: the tokens, the root key and with it the tokens, what secrets are sealed under in the store, or who signs
 * all certificates of the cluster.
 */
export type Rotation = 'tokens' | 'root key' | 'sealing key' | 'authority';

type TokenRounds = NonNullable<Cluster['tokens']>;

/** A change: the id of its entry in the audit trail, and when, ISO 8601. */
export type Begun = Readonly<{ id: string; since: string }>;

/** Of a cluster whose tokens were never made anew. */
const firstRound: TokenRounds = { round: 0 };

export function roundsOf({ tokens = firstRound }: Pick<Cluster, 'tokens'>): TokenRounds {
  return tokens;
}

type Keys = Pick<Cluster, 'controllerKey' | 'rootKeyChange'>;

/** What controllers are to take, the new one first. */
export function rootKeysOf({ controllerKey, rootKeyChange: change }: Keys): [string, ...string[]] {
  return change === undefined || change.isClosing ? [controllerKey] : [controllerKey, change.former];
}

/** What every controller takes in the phase that the file says, whichever of its releases it is of. */
export function commonRootKey({ controllerKey, rootKeyChange: change }: Keys): string {
  return change === undefined || change.isClosing ? controllerKey : change.former;
}

/** Those under which this machine's flynn command may know the cluster. */
export function knownRootKeys({ controllerKey, rootKeyChange: change }: Keys): string[] {
  return change === undefined ? [controllerKey] : [controllerKey, change.former];
}

export function beginning(): Begun {
  return { id: newId(), since: new Date().toISOString() };
}

/** With new tokens begun; a round that is not through is gone on with instead. */
export function withNextRound(cluster: Cluster): Cluster {
  const { round, former } = roundsOf(cluster);
  if (former !== undefined) return cluster;
  return { ...cluster, tokens: { round: round + 1, former: round } };
}

/** With a new root key begun, and new tokens with it; a change that is not through is gone on with instead. */
export function withNextRootKey(cluster: Cluster, key: string, begun: Begun): Cluster {
  if (cluster.rootKeyChange !== undefined) return cluster;
  const rootKeyChange = { ...begun, former: cluster.controllerKey, isClosing: false };
  return { ...withNextRound(cluster), controllerKey: key, rootKeyChange };
}

/**
 * Where the store and cluster.json are not of one time. With a later round in the store it is the file that was put back: it
 * takes over what controllers take. Else it is the store, by a snapshot or by a rollback of the controller: the key that its
 * controllers take is the former one, and the change is made again.
 */
export function withLiveKeys(
  cluster: Cluster,
  live: Pick<LiveKeys, 'rootKeys' | 'rounds'> | undefined,
  begun: Begun,
): Cluster {
  if (live === undefined) return cluster;
  const { round: own } = roundsOf(cluster);
  const [round = 0, formerRound] = live.rounds;
  const [key, formerKey] = live.rootKeys;
  if (round > own) {
    const tokens = { round, ...(formerRound === undefined ? {} : { former: formerRound }) };
    const change = formerKey === undefined ? {} : { rootKeyChange: { ...begun, former: formerKey, isClosing: false } };
    return { ...closed(cluster), controllerKey: key, tokens, ...change };
  }
  if (live.rootKeys.includes(commonRootKey(cluster))) return cluster;
  return {
    ...cluster,
    tokens: { round: own + 1, former: round },
    rootKeyChange: { ...begun, former: key, isClosing: false },
  };
}

/** Whether controllers take former tokens or a former root key: until all parts have their new tokens. */
export function isOpen(cluster: Cluster): boolean {
  return roundsOf(cluster).former !== undefined;
}

/** As controllers are to be once all parts have their new tokens. */
export function closing(cluster: Cluster): Cluster {
  const { rootKeyChange: change } = cluster;
  const keys = change === undefined ? {} : { rootKeyChange: { ...change, isClosing: true } };
  return { ...cluster, tokens: { round: roundsOf(cluster).round }, ...keys };
}

/** Once the former root key is good nowhere, and whoever made the new one was told it. */
export function closed(cluster: Cluster): Cluster {
  const { rootKeyChange: _done, ...rest } = cluster;
  return rest;
}

/** What people are to hear of the root key at the end of an `up`: also where the one that made it was broken off. */
export function rootKeyNews({ isRootKeyUntold, rootKeyChange }: Cluster): 'first' | 'new' | 'known' {
  if (isRootKeyUntold === true) return 'first';
  return rootKeyChange === undefined ? 'known' : 'new';
}

/** Once they have heard it. */
export function told(cluster: Cluster): Cluster {
  const { isRootKeyUntold: _told, ...rest } = closed(cluster);
  return rest;
}

/** `conflict` while a key is being made anew: programs of another version may know nothing of it, and be of no use. */
export function checkRotated(cluster: Cluster | undefined): void {
  const what =
    cluster?.rootKeyChange !== undefined
      ? 'root key'
      : cluster?.sealingKeyChange !== undefined
        ? 'sealing key'
        : cluster?.authorityChange !== undefined
          ? 'authority'
          : undefined;
  if (what === undefined) return;
  throw new FlynnError(
    'conflict',
    `the ${what} is being made anew, and that is not through: ${commands.up} goes on with it, then update. Nothing was changed`,
  );
}
