/** Which blobs have fewer copies than they should, or none that is whole? */
import type { Lack, Replication } from '@flynn/blobstore/api';
import type { BlobClient } from '@flynn/blobstore/client';
import type { Check, Found } from '@flynn/host-agent/doctor/finding';
import { hasCode } from '@flynn/kit/errors';

const mebibyte = 1024 ** 2;
const marks = {
  /** A store that is new takes its time; one that gets on is no finding before. */
  missingMs: 10 * 60_000,
  /** They compare themselves every minute, rarer when it takes long. */
  comparedMs: 2 * 3_600_000,
} as const;

export function blobCheck(blobs: Pick<BlobClient, 'replication'>, now: () => number): Check {
  return {
    name: 'blobs',
    async find(signal) {
      try {
        return blobFindings(await blobs.replication({ signal }), now());
      } catch (error) {
        // That none answers is told as a part of the platform that is not healthy; an earlier version has no others beside it.
        if (hasCode(error, 'unavailable', 'not_found')) return [];
        throw error;
      }
    },
  };
}

/** Pure. */
export function blobFindings({ stores }: Replication, now: number): Found[] {
  return stores.flatMap(({ host, status, problem }): Found[] => {
    const subject = `blob store on ${host}`;
    if (status === undefined) {
      return [
        {
          severity: 'warning',
          subject,
          matter: 'silent',
          what: `it does not answer the others: ${problem ?? 'no reason is known'}`,
          why: 'pushes wait until it does or is found to be gone, and what is stored meanwhile has one copy less',
          remedy: 'flynn -a blobstore ps and flynn -a blobstore log tell why',
        },
      ];
    }
    const { missing, damaged, replaced, comparedAt, moving, place } = status;
    const found: Found[] = [];
    if (damaged.count > 0) {
      found.push({
        severity: 'critical',
        subject,
        matter: 'damaged',
        what: `${place === undefined ? 'its disk' : place} damaged ${amountOf(damaged)}, and no other store has them: ${namesOf(damaged)}`,
        ...sinceOf(damaged.since),
        why: 'what is made of them can no longer be started on other hosts, nor backed up',
        remedy:
          place === undefined
            ? `push the apps concerned again; should the disk fail, flynn host drain ${host} and replace it`
            : 'push the apps concerned again, or bring them back from a version the bucket has of them',
      });
    }
    if (replaced !== undefined && replaced.count > 0) {
      found.push({
        severity: 'warning',
        subject,
        matter: 'replaced',
        what: `its disk damaged ${amountOf(replaced)} within a day; they were replaced from another store: ${namesOf(replaced)}`,
        ...sinceOf(replaced.since),
        why: 'nothing is lost; a disk that damages files goes on doing so',
        remedy: `look what the kernel of ${host} says of its disk; should it fail, flynn host drain ${host} and replace it`,
      });
    }
    if (missing.since !== undefined && now - missing.since >= marks.missingMs) {
      found.push({
        severity: 'warning',
        subject,
        matter: 'missing',
        what: `it has yet to get ${amountOf(missing)} that another store has: ${namesOf(missing)}`,
        ...sinceOf(missing.since),
        why: 'they have a copy less than they should: with the disks of the others they are lost',
        remedy: `it goes on by itself; flynn -a blobstore log tells what is in its way, flynn status how full the disk of ${host} is`,
      });
    }
    if (moving?.left.since !== undefined && now - moving.left.since >= marks.missingMs) {
      found.push({
        severity: 'warning',
        subject,
        matter: 'moving',
        what: `it has yet to move ${amountOf(moving.left)} to ${moving.to}: ${namesOf(moving.left)}`,
        ...sinceOf(moving.left.since),
        why: 'it serves them from where they were; that place is needed until all are moved',
        remedy:
          'it goes on by itself; flynn -a blobstore log tells what is in its way; one that is damaged has to be pushed again',
      });
    }
    // One that copies what it lacks compares itself again when it has it; that it does not get on is told above.
    const isCopying = missing.count > 0;
    if (comparedAt !== undefined && stores.length > 1 && !isCopying && now - comparedAt >= marks.comparedMs) {
      found.push({
        severity: 'warning',
        subject,
        matter: 'compared',
        what: 'it could not compare itself with all others',
        ...sinceOf(comparedAt),
        why: 'copies it lacks are not known',
        remedy: 'flynn -a blobstore log tells which of them it does not reach',
      });
    }
    return found;
  });
}

export function amountOf({ count, bytes }: Lack): string {
  return `${count} ${count === 1 ? 'blob' : 'blobs'} (${Math.ceil(bytes / mebibyte)} MiB)`;
}

export function namesOf({ count, digests }: Lack): string {
  return `${digests.join(', ')}${count > digests.length ? ', …' : ''}`;
}

function sinceOf(ms: number | undefined): { since?: string } {
  return ms === undefined ? {} : { since: new Date(ms).toISOString() };
}
