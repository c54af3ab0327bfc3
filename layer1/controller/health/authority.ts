/** Is a change of the cluster's authority not through, or a host that took no part in it there? */
import { type NamedAuthorities, readNamed } from '@flynn/host-agent/cluster/authority-rounds';
import type { Check, Found } from '@flynn/host-agent/doctor/finding';
import { eitherCommand } from '@flynn/kit/operator-commands';
import type { HostRecord } from '@flynn/scheduler/cell';
import { valuesOf } from '../mirrors/cell-view.ts';
import type { Deps } from '../deps.ts';

export function authorityCheck({ store, cell }: Pick<Deps, 'store' | 'cell'>): Check {
  return {
    name: 'authority',
    find: async (signal) => authorityFindings({ named: await readNamed(store, signal), hosts: valuesOf(cell.hosts) }),
  };
}

type Facts = Readonly<{
  /** Undefined while the cluster has the authority it was made with. */
  named: NamedAuthorities | undefined;
  hosts: readonly Pick<HostRecord, 'id' | 'authorityRound'>[];
}>;

/** Pure. Told while `up` is at it, too: what is so matters however long it lasts. */
export function authorityFindings({ named, hosts }: Facts): Found[] {
  if (named === undefined) return [];
  if (named.since !== undefined) {
    return [
      {
        severity: 'warning',
        subject: 'authority',
        what: 'it is being made anew, and that is not through',
        since: named.since,
        why: 'whoever has the key of the former one may be taken for a host until it is',
        remedy: `${eitherCommand('up')} on the host that keeps the platform goes on with it, unless one is at it now`,
      },
    ];
  }
  return hosts
    .filter(({ authorityRound = -1 }) => authorityRound < named.round)
    .map(({ id }) => id)
    .toSorted()
    .map((id) => ({
      severity: 'warning',
      subject: `host ${id}`,
      what: "it does not say that it trusts the cluster's authority of now, and that one alone",
      why: 'its member of etcd or its jobs may take for a host whoever has the key of a former one',
      remedy: `it sees to that by itself within a minute: its agent's log on ${id} tells why it did not, and ${eitherCommand('up')} there brings it this version`,
    }));
}
