/** What is the engine told to run for a job? */
import type { HostJob } from '@flynn/scheduler/cell';
import type { JobTemplate } from '@flynn/scheduler/job-template';
import type { Resources } from '@flynn/scheduler/resources';
import type { Container, ContainerSpec, Labels } from '../engine/engine.ts';
import { environmentOf } from './env.ts';
import type { HostEnvironment } from './env.ts';
import { containerName, jobLabels, label, metaLabels, ownLabel, volumeName } from '../engine/labels.ts';
import { type SharedNode, nodePath } from './shared-node.ts';
import { identityPath } from '../trust/job-identities.ts';

export type HostSettings = HostEnvironment & {
  cluster: string;
  networkName: string;
  /** What the platform's parts may run on as well; see `shareNode`. */
  node?: SharedNode | undefined;
};

export function containerSpecOf(job: HostJob, imageRef: string, host: HostSettings): ContainerSpec {
  const { template } = job;
  const identity = host.identities === undefined ? undefined : template.identity;
  return {
    name: containerName(host.cluster, job.id),
    labels: {
      ...jobLabels(job),
      ...placeLabels(job, host),
      ...(identity === undefined ? {} : { [label.identity]: identity }),
      ...(identity !== undefined && template.isAlwaysIdentified === true ? { [label.alwaysIdentified]: '1' } : {}),
    },
    imageRef,
    hostname: job.id.slice(0, 63),
    ...(template.entrypoint === undefined ? {} : { entrypoint: template.entrypoint }),
    ...(template.command === undefined ? {} : { command: template.command }),
    env: environmentOf(job, host),
    ...(template.user === undefined ? {} : { user: template.user }),
    ...(template.workingDirectory === undefined ? {} : { workingDirectory: template.workingDirectory }),
    network: template.hostNetwork ? { type: 'host' } : { type: 'bridge', name: host.networkName, dns: [host.gateway] },
    volumes: template.volumes.map(({ name, path, isReadOnly }) => ({
      name: volumeName(host.cluster, name),
      path,
      ...(isReadOnly === undefined ? {} : { isReadOnly }),
      // Who looks at it when its app is gone sees whose it was.
      labels: metaLabels(template.meta),
    })),
    ...(host.identities === undefined || identity === undefined
      ? {}
      : { binds: [{ source: host.identities.folderOf(job.id), path: identityPath, isReadOnly: true }] }),
    // Of the platform's own images alone: whoever is somebody's app may say what it likes in its labels.
    ...(host.node === undefined || identity === undefined
      ? {}
      : { standIns: [{ label: label.node, value: host.node.id, source: host.node.file, path: nodePath }] }),
    tty: template.tty,
    stdin: template.stdin,
    limits: {
      memoryBytes: limitsOf(template).memoryBytes,
      cpuMillis: isPart(template)
        ? Math.max(partCpuMillis, limitsOf(template).cpuMillis)
        : limitsOf(template).cpuMillis,
      pids: template.pidsLimit,
      files: template.filesLimit,
      ...(template.shmBytes === undefined ? {} : { shmBytes: template.shmBytes }),
    },
  };
}

/** What is set aside for the platform's parts is little; apps that keep all processors busy must not make it wait. */
const partCpuMillis = 4_000;

/** Builds and one-off jobs of the platform's run when there is room. */
function isPart({ identity, restart }: JobTemplate): boolean {
  return identity !== undefined && restart === 'always';
}

function placeLabels({ template }: HostJob, { externalAddress, storeEndpoints }: HostSettings): Labels {
  const store = template.access.includes('store') ? (storeEndpoints?.() ?? []).join(',') : undefined;
  return { [label.address]: externalAddress, ...(store === undefined ? {} : { [label.store]: store }) };
}

/**
 * Whether its environment tells of where the host, or all of etcd, was before: what runs may know better by now, and what is
 * started again in it would begin with that. Of one that a version before has made it is not known.
 */
export function isOfFormerPlace(
  { labels }: Pick<Container, 'labels'>,
  { externalAddress, storeEndpoints }: HostEnvironment,
): boolean {
  const address = ownLabel(labels, label.address);
  const store = ownLabel(labels, label.store);
  if (address !== undefined && address !== externalAddress) return true;
  const now = storeEndpoints?.() ?? [];
  return store !== undefined && now.length > 0 && !store.split(',').some((endpoint) => now.includes(endpoint));
}

/** What a version before let an image say of a container: a limit, a name, what it may. */
const onceOfImages = [
  label.singleton,
  label.tempDisk,
  label.identity,
  label.alwaysIdentified,
  label.resident,
  label.store,
] as const;

/** Whether it says in our name what its job does not: it was made when images were believed. */
export function saysMoreThanJob({ labels }: Pick<Container, 'labels'>, job: HostJob, host: HostSettings): boolean {
  const { labels: own } = containerSpecOf(job, '', host);
  const isMeta = (name: string): boolean => name.startsWith(label.metaPrefix);
  const told = [...onceOfImages, ...Object.keys(labels).filter(isMeta)];
  return told.some((name) => ownLabel(labels, name) !== undefined && ownLabel(own, name) === undefined);
}

export function limitsOf(template: JobTemplate): Resources {
  return template.limits ?? template.resources;
}
