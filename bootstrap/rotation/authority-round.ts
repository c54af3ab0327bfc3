/**
 * Pure. The cluster's authority is made anew while nobody refuses anybody (docs/trust.md). Where it is stands in cluster.json;
 * the next `up` goes on with one that was broken off.
 *
 *     phase    issues      trusted                          over once
 *     opening  the former  the former, then the new, too    all hosts, members of etcd, controllers and jobs trust both
 *     issuing  the new     both                             all that anybody shows is of the new
 *     closing  the new     both, then the new alone         all trust the new alone
 *
 * Each phase is a round of its own, by which hosts take over from one another what is trusted and issues in it.
 */
import { type AuthoritySettings, trustedOnly } from '@flynn/host-agent/trust/authorities';
import { FlynnError } from '@flynn/kit/errors';
import { type Credentials, endorse } from '@flynn/kit/tls';
import type { Begun } from './rotation.ts';
import type { Cluster } from '../settings.ts';

type File = AuthoritySettings & Pick<Cluster, 'authorityChange'>;

const roundOf = ({ authorityRound = 0 }: AuthoritySettings): number => authorityRound;

/** With a new one begun; a change that is not through is gone on with instead. */
export async function withNextAuthority<T extends File>(cluster: T, next: Credentials, begun: Begun): Promise<T> {
  if (cluster.authorityChange !== undefined) return cluster;
  return {
    ...cluster,
    authorityChange: { ...begun, phase: 'opening', next },
    alsoTrusted: await trustedOnly(next),
    authorityRound: roundOf(cluster) + 1,
  };
}

/** Once everybody trusts both: the former's key is gone from here, after it signed for the new one. */
export async function withIssuing<T extends File>(cluster: T): Promise<T> {
  const { authority: former, authorityChange: change } = cluster;
  if (change?.phase !== 'opening') return cluster;
  const { next, ...begun } = change;
  if (next === undefined) throw new FlynnError('internal', 'the new authority has no key while its change opens');
  return {
    ...cluster,
    authority: next,
    alsoTrusted: await trustedOnly(former),
    endorsement: await endorse(next.certificate, former),
    authorityChange: { ...begun, phase: 'issuing' },
    authorityRound: roundOf(cluster) + 1,
  };
}

/** Once nobody shows anything of the former. */
export function withClosing<T extends File>(cluster: T): T {
  if (cluster.authorityChange?.phase !== 'issuing') return cluster;
  const { alsoTrusted: _former, ...rest } = cluster;
  return {
    ...rest,
    authorityChange: { ...cluster.authorityChange, phase: 'closing' },
    authorityRound: roundOf(cluster) + 1,
  } as T;
}

/** Once nobody trusts the former. */
export function withoutAuthorityChange<T extends File>(cluster: T): T {
  if (cluster.authorityChange?.phase !== 'closing') return cluster;
  const { authorityChange: _done, ...rest } = cluster;
  return rest as T;
}
