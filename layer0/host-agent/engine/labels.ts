/** The names and labels by which the engine's objects are known as ours. */
import { createHash } from 'node:crypto';
import { keyspaceSchema } from '@flynn/scheduler/job-template';
import type { HostJob } from '@flynn/scheduler/cell';
import type { Keyspace } from '@flynn/scheduler/job-template';
import type { Labels } from './engine.ts';

export const label = {
  cluster: 'flynn.cluster',
  job: 'flynn.job',
  workload: 'flynn.workload',
  version: 'flynn.version',
  /** On containers of which there must never be two: see fencing/fence.ts. */
  singleton: 'flynn.singleton',
  /** On containers that may not write more than so many bytes outside their volumes. */
  tempDisk: 'flynn.temp-disk',
  /** On the platform's own images, which `up` builds. */
  image: 'flynn.image',
  /** On those whose /usr/bin/node is the agent's own, if it says the same of itself: see containers/shared-node.ts. */
  node: 'flynn.node',
  /** What the job may reach: see network/policy.ts. */
  group: 'flynn.group',
  links: 'flynn.links',
  access: 'flynn.access',
  /** Which keys of the store it may have, and who shows that: see keyspaces/. */
  keyspace: 'flynn.keyspace',
  /** The app as which it has a certificate. */
  identity: 'flynn.identity',
  /** It shows that wherever it can. */
  alwaysIdentified: 'flynn.always-identified',
  /** Where the host was, and etcd for those that may reach it, when the container was made: its environment says so, too. */
  address: 'flynn.address',
  store: 'flynn.store',
  /** On containers the agent runs from its own disk, without the store. */
  resident: 'flynn.resident',
  /** On stacks: the base image's id and the layers they were made of. */
  stack: 'flynn.stack',
  /** On images loaded whole from the blob store: the digest of their configuration there. */
  loaded: 'flynn.loaded',
  /** On the networks of builds: which build. */
  build: 'flynn.build',
  metaPrefix: 'flynn.meta.',
} as const;

/** As far as it says anything: what an image says in our name is emptied in its containers, see `createBody`. */
export function ownLabel(labels: Labels, name: string): string | undefined {
  const text = labels[name];
  return text === '' ? undefined : text;
}

const ownPrefix = 'flynn.';

/** Containers inherit the labels of their image. These, set on one, say nothing in the place of what the image says in our name. */
export function withoutOwnOf(imageLabels: Labels): Labels {
  const own = Object.keys(imageLabels).filter((name) => name.startsWith(ownPrefix));
  return Object.fromEntries(own.map((name) => [name, '']));
}

export function residentId(name: string): string {
  return `resident-${name}`;
}

/** Of a container that the agent runs from its own disk, its name there: no assigned job has the id that goes with it. */
export function residentOf(labels: Labels): string | undefined {
  const name = ownLabel(labels, label.resident);
  return name !== undefined && labels[label.job] === residentId(name) ? name : undefined;
}

export function containerName(cluster: string, jobId: string): string {
  return `flynn-${cluster}-${jobId}`;
}

/** Volumes outlive containers and are never shared between clusters on one machine. */
export function volumeName(cluster: string, name: string): string {
  return `flynn-${cluster}.${name}`;
}

export function stackRepository(cluster: string): string {
  return `flynn-${cluster}/stack`;
}

export function loadedRepository(cluster: string): string {
  return `flynn-${cluster}/image`;
}

/** What builds made, by what they are built for: the next build finds its steps done there. */
export function buildRepository(cluster: string): string {
  return `flynn-${cluster}/build`;
}

/** Where the steps of a build run, and nothing else. */
export function buildNetwork(cluster: string, id: string): string {
  return `${buildNetworkPrefix(cluster)}${id}`;
}

export function buildNetworkPrefix(cluster: string): string {
  return `flynn-${cluster}-build-`;
}

/**
 * What the bridges of builds are called, so that rules of the host tell what comes from a step. With a sign that the name of no
 * cluster's own bridge has.
 */
export const buildBridgePrefix = 'flb_';

/** At most 15 characters, which is all that a device's name may have. */
export function buildBridge(network: string): string {
  return `${buildBridgePrefix}${createHash('sha256').update(network).digest('hex').slice(0, 11)}`;
}

export function jobLabels(job: Pick<HostJob, 'id' | 'workloadId' | 'version' | 'template' | 'singleton'>): Labels {
  return {
    ...metaLabels(job.template.meta),
    [label.job]: job.id,
    [label.workload]: job.workloadId,
    [label.version]: job.version,
    [label.group]: groupOf(job),
    [label.links]: job.template.links.join(','),
    [label.access]: job.template.access.join(','),
    // Without one it says so: else it would have what its image says.
    [label.keyspace]: keyspaceLabel(job.template.keyspace),
    ...(job.template.tempDiskBytes === undefined ? {} : { [label.tempDisk]: String(job.template.tempDiskBytes) }),
    ...(isSingleton(job) ? { [label.singleton]: '1' } : {}),
  };
}

/** `name sha256:…`, empty for a job without a keyspace. */
function keyspaceLabel(keyspace: Keyspace | undefined): string {
  return keyspace === undefined ? '' : `${keyspace.name} ${keyspace.keyDigest}`;
}

/** Undefined of a container without a keyspace. */
export function keyspaceOfLabels(labels: Labels): Keyspace | undefined {
  const [name, keyDigest] = labels[label.keyspace]?.split(' ') ?? [];
  return keyspaceSchema.safeParse({ name, keyDigest }).data;
}

/**
 * Whether two of it at once would do harm: two may not write the same volume, unless it is made for that. Jobs with a keyspace
 * agree there on who leads, each with a volume of its own: they are not stopped for a store that is away.
 */
export function isSingleton(job: Pick<HostJob, 'template' | 'singleton'>): boolean {
  const { volumes, keyspace } = job.template;
  return job.singleton || (keyspace === undefined && volumes.some(({ isShared = false }) => !isShared));
}

/** Jobs of one group reach each other. */
export function groupOf({ template, workloadId }: Pick<HostJob, 'workloadId' | 'template'>): string {
  return template.group ?? workloadId;
}

export function metaLabels(meta: Readonly<Record<string, string>>): Labels {
  return Object.fromEntries(Object.entries(meta).map(([key, value]) => [`${label.metaPrefix}${key}`, value]));
}

export function metaOfLabels(labels: Labels): Record<string, string> {
  return Object.fromEntries(
    Object.entries(labels)
      .filter(([key, value]) => key.startsWith(label.metaPrefix) && value !== '')
      .map(([key, value]) => [key.slice(label.metaPrefix.length), value]),
  );
}
