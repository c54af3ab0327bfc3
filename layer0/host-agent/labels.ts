/** The names and labels by which the engine's objects are known as ours. */
import type { HostJob } from '@flynn/scheduler/cell';
import type { Labels } from './engine.ts';

export const label = {
  cluster: 'flynn.cluster',
  job: 'flynn.job',
  workload: 'flynn.workload',
  version: 'flynn.version',
  /** On containers the agent runs from its own disk, without the store. */
  resident: 'flynn.resident',
  /** On stacks: the base image's id and the layers they were made of. */
  stack: 'flynn.stack',
  metaPrefix: 'flynn.meta.',
} as const;

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

export function jobLabels(job: Pick<HostJob, 'id' | 'workloadId' | 'version' | 'template'>): Labels {
  const meta = Object.entries(job.template.meta).map(([key, value]) => [`${label.metaPrefix}${key}`, value] as const);
  return {
    ...Object.fromEntries(meta),
    [label.job]: job.id,
    [label.workload]: job.workloadId,
    [label.version]: job.version,
  };
}

export function metaOfLabels(labels: Labels): Record<string, string> {
  return Object.fromEntries(
    Object.entries(labels)
      .filter(([key]) => key.startsWith(label.metaPrefix))
      .map(([key, value]) => [key.slice(label.metaPrefix.length), value]),
  );
}
