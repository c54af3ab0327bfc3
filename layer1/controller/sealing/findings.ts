/** What is wrong with how secrets are kept at rest? */
import type { Check, Found } from '@flynn/host-agent/doctor/finding';
import type { HostRecord } from '@flynn/scheduler/cell';
import { readRing } from '@flynn/store/sealing/ring';
import type { Ring } from '@flynn/store/sealing/ring';
import { valuesOf } from '../cell-view.ts';
import type { Deps } from '../deps.ts';

/** A walk over the store takes a minute or two. */
const lateMs = 3_600_000;

export function sealingCheck({ sealed, cell, now }: Pick<Deps, 'sealed' | 'cell' | 'now'>): Check {
  return {
    name: 'sealing',
    find: async (signal) => {
      const key = await sealed?.sealingKey();
      if (sealed === undefined || key === undefined) return [];
      const stored = await readRing(sealed.raw, { signal });
      return sealingFindings({ ring: stored?.ring, keyId: key.id, hosts: valuesOf(cell.hosts), now: now() });
    },
  };
}

type Facts = Readonly<{
  ring: Ring | undefined;
  /** Of the controller's sealing key. */
  keyId: string;
  hosts: readonly Pick<HostRecord, 'id' | 'sealingKeyId'>[];
  now: number;
}>;

/** Pure. */
export function sealingFindings({ ring, keyId, hosts, now }: Facts): Found[] {
  const others = hosts.filter((host) => host.sealingKeyId !== keyId).map(({ id }) => id);
  if (ring === undefined) {
    const where = others.length === 0 ? 'the host that made the cluster' : others.toSorted().join(', ');
    return [
      {
        severity: 'warning',
        subject: 'secrets',
        what: 'they are in clear in etcd',
        why: "whoever has a disk or a snapshot of etcd has every app's variables and all keys",
        remedy: `npm run up on ${where}: it begins once all hosts can read what is sealed`,
      },
    ];
  }
  const found: Found[] = others.toSorted().map((id) => ({
    severity: 'critical',
    subject: `host ${id}`,
    what: "it has not the key that the cluster's secrets are sealed under",
    why: 'it starts no new jobs, for it cannot read what they are to run with',
    remedy: `npm run up on ${id}; if that does not help, npm run down there and let it join again`,
  }));
  const since = ring.rewriting?.since;
  if (since === undefined || now < Date.parse(since) + lateMs) return found;
  return [
    ...found,
    {
      severity: 'warning',
      subject: 'secrets',
      what: 'a change of keys is not through',
      since,
      why: 'what is in clear or sealed with an older key stays so, and the older key stays in use',
      remedy: 'flynn -a controller log -t worker has what stops it: does its worker run?',
    },
  ];
}
