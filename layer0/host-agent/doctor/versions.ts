/** Is all of one version, or has an update been left where it was? Pure. */
import { goOnCommands } from '../update/record.ts';
import type { UpdateRecord } from '../update/record.ts';
import type { Found } from './finding.ts';

/** As hosts that answer say it of themselves. Told while the cluster is being moved, too. */
export function versionFindings(hosts: readonly Readonly<{ id: string; version: string }>[]): Found[] {
  const byVersion = Map.groupBy(hosts, ({ version }) => version);
  if (byVersion.size < 2) return [];
  const told = [...byVersion].map(([version, of]) => `${of.map(({ id }) => id).join(', ')} ${version}`).toSorted();
  return [
    {
      severity: 'warning',
      subject: 'the cluster',
      what: `hosts are of different versions: ${told.join('; ')}`,
      why: 'an update is under way or was broken off, or left hosts that were away: versions beside each other are for the time of an update',
      remedy:
        'unless an update is at it now, on the host that keeps the platform: flynn-host update --to VERSION, the one that all are to be (with --bundle FILE where hosts lack it, as one that was away does)',
    },
  ];
}

/** Of the host that moves the cluster: nobody else knows of the parts of the platform that are still of the version before. */
export function updateFindings(subject: string, record: UpdateRecord | undefined): Found[] {
  if (record === undefined) return [];
  return [
    {
      severity: 'warning',
      subject,
      what: `it moves the cluster to version ${record.version}, and that is not through`,
      since: record.since,
      why: 'until it is, hosts and parts of the platform are of different versions',
      remedy: `unless an update is at it now, there: ${goOnCommands(record)}`,
    },
  ];
}
