/** Does the cluster have other hosts? */
import type { Logger } from '@flynn/kit/log';
import { cellKeys } from '@flynn/scheduler/cell';
import { openMirror } from '@flynn/store/mirror';
import type { Revision, Store } from '@flynn/store/store';

/** Hosts that joined, whether they are there or not. */
const joinedPrefix = '/flynn/network/hosts/';

export type Neighbours = {
  /** A host that joined and is away may be back before the next look: it counts. */
  readonly isAlone: boolean;
  reached(revision: Revision, signal: AbortSignal): Promise<void>;
};

export async function followNeighbours(options: {
  store: Store;
  hostId: string;
  log: Logger;
  signal: AbortSignal;
}): Promise<Neighbours> {
  const { store, hostId, log, signal } = options;
  const open = (prefix: string) => openMirror({ store, prefix, decode: () => true, log, signal });
  const mirrors = await Promise.all([open(cellKeys.hosts), open(joinedPrefix)]);
  return {
    get isAlone() {
      return mirrors.every(({ snapshot: { entries } }) => entries.size === (entries.has(hostId) ? 1 : 0));
    },
    async reached(revision, until) {
      await Promise.all(mirrors.map((mirror) => mirror.reached(revision, { signal: until })));
    },
  };
}
