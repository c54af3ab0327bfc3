/** Which names are certificates asked for without anybody asking, and which can be? Pure. */
import { FlynnError } from '@flynn/kit/errors';
import { isIP } from 'node:net';
import { isAmong, isCovered } from '../domains.ts';
import type { ChallengeType } from '../model.ts';

/** Names that no authority can know of (RFC 2606, 6761, 6762, 9476), or that are not meant for it. */
const privateEnds = [
  'localhost',
  'local',
  'internal',
  'test',
  'example',
  'invalid',
  'home.arpa',
  'lan',
  'onion',
  'alt',
];

export function isPublicName(domain: string): boolean {
  const name = domain.replace(/^\*\./, '');
  return name.includes('.') && isIP(name) === 0 && !privateEnds.some((end) => name === end || name.endsWith(`.${end}`));
}

/** Of what an authority would refuse it is not asked, each time anew. Throws `invalid`. */
export function checkNames(domains: readonly string[], challenge: ChallengeType): void {
  const wildcard = domains.find((domain) => domain.startsWith('*.'));
  if (wildcard !== undefined && challenge !== 'dns-01') {
    throw new FlynnError(
      'invalid',
      `authorities give ${wildcard} for dns-01 alone, and this cluster's is asked with ${challenge}`,
    );
  }
  const strange = domains.find((domain) => !domain.includes('.'));
  if (strange !== undefined) throw new FlynnError('invalid', `${strange} is no name that an authority can know of`);
}

/**
 * One for each public name that no other certificate covers. With dns-01 the names at a domain of the cluster have one
 * wildcard together: authorities count, and apps come and go.
 */
export function automaticNames(input: {
  routes: Iterable<string>;
  /** Names of the certificates that were brought or asked for. */
  covered: readonly string[];
  challenge: ChallengeType;
  /** Its own, and those it had. */
  clusterDomains: readonly string[];
}): Set<string> {
  const { routes, challenge, clusterDomains } = input;
  const covered = new Set(input.covered);
  const names = new Set<string>();
  for (const domain of routes) {
    if (!isPublicName(domain) || isAmong(covered, domain)) continue;
    const ofCluster = clusterDomains.map((own) => `*.${own}`).find((wildcard) => isCovered(wildcard, domain));
    if (challenge === 'dns-01' && ofCluster !== undefined) names.add(ofCluster);
    else if (!domain.startsWith('*.') || challenge === 'dns-01') names.add(domain);
  }
  return names;
}
