/** The line by which another computer knows the cluster, with its root key: shown when that is made. */
import type { Cluster as KnownCluster } from '@flynn/cli/clusters/clusters';
import { fingerprintOf } from '@flynn/kit/certificate';
import { type Cluster } from '../settings.ts';
import { secureControllerUrlOf } from '../domain/urls.ts';

/**
 * Pinned, unless people have brought another certificate for the controller: this machine's flynn command, which knows these,
 * says so.
 */
export function addLine(cluster: Cluster, known: readonly KnownCluster[]): string {
  const { name, controllerKey: key, authority } = cluster;
  const url = secureControllerUrlOf(cluster);
  const isTrusted = known.some((one) => one.controllerUrl === url && one.ca === undefined);
  const pin = isTrusted ? '' : ` --pin ${fingerprintOf(authority.certificate)}`;
  return `flynn cluster add ${name} ${url} ${key}${pin}`;
}

/** The same for who has a key of theirs already. */
export function pinLine(cluster: Cluster): string {
  const { name, authority } = cluster;
  return `flynn cluster add ${name} ${secureControllerUrlOf(cluster)} KEY --pin ${fingerprintOf(authority.certificate)}`;
}

/** For who asks a person at this host whom to trust. */
export function fingerprintText({ authority }: Pick<Cluster, 'authority'>): string {
  return `\nOther computers know the cluster by its authority (--pin): ${fingerprintOf(authority.certificate)}\n`;
}
