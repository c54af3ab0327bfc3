/** What may the jobs of this host reach? Jobs with equal answers share one policy. */
import type { JobTemplate } from '@flynn/scheduler/job-template';
import { z } from 'zod';
import type { Container, Labels } from '../engine/engine.ts';
import { keyspaceOfLabels, label } from '../engine/labels.ts';

/** What of the platform a job may reach: what its template says, and the door to its keyspace if it has one. */
export type Access = JobTemplate['access'][number] | 'keyspace';

/** What a job's template says of its reach. */
export type Reach = Readonly<{ group: string; links: readonly string[]; access: readonly Access[] }>;

/** A running container of this host. `reach` is undefined when it was made before containers were told theirs. */
export type LocalJob = Readonly<{ address: string; reach: Reach | undefined }>;

/** An announced port, on any host. */
export const endpointSchema = z.object({
  service: z.string(),
  group: z.string().optional(),
  address: z.string(),
  port: z.int(),
});
export type Endpoint = Readonly<z.output<typeof endpointSchema>>;

export type Policy = Readonly<{
  sources: readonly string[];
  /** `address . port`, sorted: of its group and of what it links. */
  endpoints: readonly string[];
  access: readonly Access[];
  /** For containers made before there were policies: as open as it was then, until they are replaced. */
  isOpen: boolean;
}>;

/** Jobs in the host's network have no address of their own, and no policy: they are the host. */
export function localJobsOf(containers: readonly Container[]): LocalJob[] {
  return containers.flatMap(({ state, address, labels }) =>
    state === 'running' && address !== undefined ? [{ address, reach: reachOf(labels) }] : [],
  );
}

/** Undefined for a container without these labels: one that an earlier version of the agent made. */
function reachOf(labels: Labels): Reach | undefined {
  const group = labels[label.group];
  if (group === undefined) return undefined;
  const access: Access[] = listOf(labels[label.access]).filter(isAccess);
  if (keyspaceOfLabels(labels) !== undefined) access.push('keyspace');
  return { group, links: listOf(labels[label.links]), access };
}

function listOf(text: string | undefined): string[] {
  return text === undefined || text === '' ? [] : text.split(',');
}

function isAccess(word: string): word is JobTemplate['access'][number] {
  return word === 'discovery' || word === 'agents' || word === 'store' || word === 'services';
}

export function policiesOf(jobs: readonly LocalJob[], endpoints: readonly Endpoint[]): Policy[] {
  const policies = new Map<string, { sources: string[]; reach: Reach | undefined }>();
  for (const { address, reach } of jobs) {
    const key = JSON.stringify(reach === undefined ? null : [reach.group, sorted(reach.links), sorted(reach.access)]);
    const policy = policies.get(key) ?? { sources: [], reach };
    policies.set(key, policy);
    policy.sources.push(address);
  }
  // Only agents say of what group an instance is. Without one it may be anybody's word, with anybody's address.
  const trusted = endpoints.filter(({ group }) => group !== undefined);
  const byGroup = Map.groupBy(trusted, ({ group }) => group);
  const byService = Map.groupBy(trusted, ({ service }) => service);
  const reached = ({ group, links }: Reach): Endpoint[] => [
    ...(byGroup.get(group) ?? []),
    ...links.flatMap((link) => byService.get(link) ?? []),
  ];
  return [...policies]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([, { sources, reach }]) => ({
      sources: sorted(sources),
      endpoints: reach === undefined ? [] : placesOf(reached(reach)),
      access: sorted(reach?.access ?? []),
      isOpen: reach === undefined,
    }));
}

/** One port may be announced under several names. */
export function placesOf(endpoints: readonly Endpoint[]): string[] {
  return sorted(endpoints.map(({ address, port }) => `${address} . ${port}`));
}

function sorted<T extends string>(words: readonly T[]): T[] {
  return [...new Set(words)].sort();
}
