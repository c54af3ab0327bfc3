/** Is the host that keeps the platform still one of the cluster? Pure. */
import { eitherCommand } from '@flynn/kit/operator-commands';
import type { KnownHost } from '../api.ts';
import type { Found } from './finding.ts';

/** While it is only away, that is told, and it may come back. */
export function keeperFindings(hosts: readonly Pick<KnownHost, 'id'>[], keeper: string | undefined): Found[] {
  if (keeper === undefined || hosts.some(({ id }) => id === keeper)) return [];
  return [
    {
      severity: 'warning',
      subject: 'the platform',
      what: `no host keeps it: ${keeper}, which did, is out of the cluster`,
      why: "nobody updates the cluster, changes its keys and domain, and renews the controller's certificate for etcd",
      remedy: `on a host that stays: ${eitherCommand('takeOver')}`,
    },
  ];
}
