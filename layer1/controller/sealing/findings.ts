/** What is wrong with how secrets are kept at rest? */
import type { Check, Found } from '@flynn/host-agent/doctor/finding';
import { eitherCommand } from '@flynn/kit/operator-commands';
import type { HostRecord } from '@flynn/scheduler/cell';
import { readRing, sealedUnder } from '@flynn/store/sealing/ring';
import type { Ring } from '@flynn/store/sealing/ring';
import { valuesOf } from '../mirrors/cell-view.ts';
import type { Deps } from '../deps.ts';

/** A walk over the store takes a minute or two. */
const lateMs = 3_600_000;

export function sealingCheck({ sealed, cell, now }: Pick<Deps, 'sealed' | 'cell' | 'now'>): Check {
  return {
    name: 'sealing',
    find: async (signal) => {
      const keyIds = (await sealed?.sealingKeys())?.map(({ id }) => id) ?? [];
      if (sealed === undefined || keyIds.length === 0) return [];
      const stored = await readRing(sealed.raw, { signal });
      return sealingFindings({ ring: stored?.ring, keyIds, hosts: valuesOf(cell.hosts), now: now() });
    },
  };
}

type Facts = Readonly<{
  ring: Ring | undefined;
  /** Of the controller's sealing key; of two while it is made anew. */
  keyIds: readonly string[];
  hosts: readonly Pick<HostRecord, 'id' | 'sealingKeyId' | 'sealingKeyIds'>[];
  now: number;
}>;

/** Told while `up` is at it, too: what is so matters however long it lasts. */
const unfinished: Found = {
  severity: 'warning',
  subject: 'sealing key',
  what: 'it is being made anew, and that is not through',
  why: 'whoever has the former one may open what is in a disk or a snapshot of etcd until it is',
  remedy: `${eitherCommand('up')} on the host that keeps the platform goes on with it, unless one is at it now`,
};

/** Pure. */
export function sealingFindings({ ring, keyIds, hosts, now }: Facts): Found[] {
  const needed = ring === undefined ? (keyIds[0] ?? '') : sealedUnder(ring);
  const hasIt = ({ sealingKeyId = '', sealingKeyIds = [sealingKeyId] }: Facts['hosts'][number]): boolean =>
    sealingKeyIds.includes(needed);
  const others = hosts.filter((host) => !hasIt(host)).map(({ id }) => id);
  if (ring === undefined) {
    const where = others.length === 0 ? 'the host that keeps the platform' : others.toSorted().join(', ');
    return [
      {
        severity: 'warning',
        subject: 'secrets',
        what: 'they are in clear in etcd',
        why: "whoever has a disk or a snapshot of etcd has every app's variables and all keys",
        remedy: `${eitherCommand('up')} on ${where}: it begins once all hosts can read what is sealed`,
      },
    ];
  }
  const found: Found[] = others.toSorted().map((id) => ({
    severity: 'critical',
    subject: `host ${id}`,
    what: "it has not the key that the cluster's secrets are sealed under",
    why: 'it starts no new jobs, for it cannot read what they are to run with',
    remedy: `it asks the other hosts for it by itself; if this stays, ${eitherCommand('up')} on ${id}, and if that does not help, ${eitherCommand('down')} there and let it join again`,
  }));
  if (ring.next !== undefined || keyIds.length > 1) found.push(unfinished);
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
