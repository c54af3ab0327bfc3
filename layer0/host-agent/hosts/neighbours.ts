/** Does the cluster have other hosts? */
import type { Logger } from '@flynn/kit/log';
import { cellKeys } from '@flynn/scheduler/cell';
import { openMirror } from '@flynn/store/mirror';
import type { Lease, Revision, Store } from '@flynn/store/store';

/** Hosts that joined, whether they are there or not. */
const joinedPrefix = '/flynn/network/hosts/';

export type Neighbours = {
  /** A host that joined and is away may be back before the next look: it counts. */
  readonly isAlone: boolean;
  reached(revision: Revision, signal: AbortSignal): Promise<void>;
  /** Resolves once this host's own record is on another lease than this one, as it was put there at that revision. */
  untilTaken(standing: { lease: Pick<Lease, 'id'>; revision: Revision }, signal: AbortSignal): Promise<void>;
};

export async function followNeighbours(options: {
  store: Store;
  hostId: string;
  log: Logger;
  signal: AbortSignal;
}): Promise<Neighbours> {
  const { store, hostId, log, signal } = options;
  const open = (prefix: string) =>
    openMirror({ store, prefix, decode: (_json, _key, entry) => ({ lease: entry.lease }), log, signal });
  const [present, joined] = await Promise.all([open(cellKeys.hosts), open(joinedPrefix)]);
  const mirrors = [present, joined];
  return {
    get isAlone() {
      return mirrors.every(({ snapshot: { entries } }) => entries.size === (entries.has(hostId) ? 1 : 0));
    },
    async reached(revision, until) {
      await Promise.all(mirrors.map((mirror) => mirror.reached(revision, { signal: until })));
    },
    async untilTaken({ lease, revision }, until) {
      for await (const snapshot of present.changes({ signal: until })) {
        const own = snapshot.entries.get(hostId);
        if (snapshot.revision >= revision && own !== undefined && own.value.lease !== lease.id) return;
      }
    },
  };
}
