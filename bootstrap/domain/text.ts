/** What people do where a cluster has another domain: at their DNS, with their commands, in clones. Pure. */
import { styleText } from 'node:util';
import type { Cluster as KnownCluster } from '@flynn/cli/clusters/clusters';
import { addLine } from '../cli/add-line.ts';
import { formerDomainsOf } from './domain.ts';
import { commands } from '../origin.ts';
import { type Cluster } from '../settings.ts';
import { gitUrlOf } from './urls.ts';

const command = (text: string): string => `  ${styleText('bold', text)}\n`;

/** For a domain that is somebody's, with the addresses of the cluster's hosts that have a router. */
export function recordsText({ domain }: Pick<Cluster, 'domain'>, addresses: readonly string[]): string {
  if (domain.endsWith('.localhost')) return '';
  const records = [...addresses].sort().flatMap((address) => [`${domain}. A ${address}`, `*.${domain}. A ${address}`]);
  return [
    '\nAt your DNS, unless they are there already (addresses from outside, where the hosts have others there):\n\n',
    ...records.map((record) => command(record)),
  ].join('');
}

/** With the addresses of the cluster's hosts that have a router, and the clusters that this machine's flynn command knows. */
export function domainText(
  cluster: Cluster,
  addresses: readonly string[],
  known: readonly KnownCluster[] = [],
): string {
  const { domain } = cluster;
  // Everybody has a key of their own.
  const unnamed = known.flatMap((one) => (one.key === cluster.controllerKey ? [{ ...one, key: 'KEY' }] : []));
  const former = formerDomainsOf(cluster);
  return [
    `\nThe cluster is at ${domain}; what is at ${former.join(' and ')} goes on answering until it is dropped.\n`,
    recordsText(cluster, addresses),
    '\nCertificates for names at the new domain come from the authority by themselves where one is set; bring others with "flynn route cert add".\n',
    '\nWhoever uses the cluster gets to know it anew, with their own key, and leads their clones there:\n\n',
    command(addLine({ ...cluster, controllerKey: 'KEY' }, unnamed)),
    command(`git remote set-url flynn ${gitUrlOf(cluster)}/APP.git`),
    '\nOnce nobody asks for the former names any more:\n\n',
    ...former.map((one) => command(`${commands.dropDomain} ${one}`)),
  ].join('');
}
