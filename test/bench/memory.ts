/**
 * What does the platform take of a host's memory, part by part? Counted are the agent with its shells, etcd, every process of
 * the platform's apps and the shim that the engine keeps beside each of their containers. The engine itself was there before
 * and stays after `down`: it is shown, and counts for nothing, nor do sample apps.
 */
import { readFileSync } from 'node:fs';
import type { ClusterHost } from '@flynn/bootstrap/test-hosts/cluster-host';
import type { HostProcess } from '@flynn/bootstrap/test-hosts/processes';
import { waitFor } from '@flynn/kit/retry';
import type { TestCluster } from '../test-cluster.ts';
import { figure, type Figure } from './figure.ts';
import { pagesOf, sharesOf } from './resident.ts';

export type Part = { name: string; megabytes: number; isCounted: boolean };

/** Processes look for what they can give back every half a minute: with nothing less by then, they are at rest. */
const restMs = 45_000;
const lessShare = 0.02;

const agentPart = 'host agent';
const enginePart = 'engine (not counted)';
const samplePart = 'sample app (not counted)';
const notCounted = new Set([enginePart, samplePart]);

/** As if the host's processes were alone on the machine: see `sharesOf`. */
export async function memoryByPart(cluster: TestCluster, host = cluster.host): Promise<Part[]> {
  const containers = await containersOf(cluster, host);
  const agent = host.agentPid();
  const processes = host.processes('').map((one) => ({
    part: partOf(one, containers, one.pid === agent),
    pages: pagesOf(one.pid),
  }));
  return [...sharesOf(processes)].map(([name, megabytes]) => ({
    name,
    megabytes,
    isCounted: !notCounted.has(name),
  }));
}

/** Once all of them have given back what they do not need. */
export async function memoryAtRest(cluster: TestCluster, hosts: readonly ClusterHost[]): Promise<Map<string, Part[]>> {
  let least = { atMs: -Infinity, megabytes: Infinity };
  return waitFor(
    async () => {
      const seen = new Map<string, Part[]>();
      for (const host of hosts) seen.set(host.name, await memoryByPart(cluster, host));
      const megabytes = countedOf([...seen.values()].flat());
      const atMs = performance.now();
      if (megabytes < least.megabytes * (1 - lessShare)) least = { atMs, megabytes };
      return atMs - least.atMs >= restMs ? seen : undefined;
    },
    { what: 'memory to be given back', deadlineMs: 300_000, intervalMs: 5_000 },
  );
}

export function countedOf(parts: readonly Part[]): number {
  return parts.reduce((sum, { megabytes, isCounted }) => sum + (isCounted ? megabytes : 0), 0);
}

/** A row for each part, and one for all that count. */
export function figuresOf(prefix: string, parts: readonly Part[], must?: string): Figure[] {
  return [
    ...parts.map(({ name, megabytes }) => figure({ name: `${prefix}: ${name}`, value: megabytes, unit: 'MB' })),
    figure({
      name: `${prefix}: platform`,
      value: countedOf(parts),
      unit: 'MB',
      ...(must === undefined ? {} : { must }),
    }),
  ];
}

type Container = { id: string; part: string };

async function containersOf(cluster: TestCluster, host: ClusterHost): Promise<Container[]> {
  const format = '{{.ID}}\t{{.Label "flynn.meta.flynn.app_name"}}\t{{.Label "flynn.meta.flynn.type"}}\t{{.Names}}';
  const { stdout } = await cluster.dockerOf(host, 'ps', '--no-trunc', '--format', format);
  return stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const [id = '', app = '', type = '', name = ''] = line.split('\t');
      return { id, part: app === 'hello' ? samplePart : app === '' ? name : `${app} ${type}` };
    });
}

function partOf(
  { pid, command, isEngine, isContainer }: HostProcess,
  containers: Container[],
  isAgent: boolean,
): string {
  if (isContainer) {
    const group = controlGroupOf(pid);
    return containers.find(({ id }) => group.includes(id))?.part ?? 'containers that ended';
  }
  if (isEngine) {
    const shimOf = containers.find(({ id }) => command.includes(`-id ${id}`));
    if (shimOf === undefined) return enginePart;
    return shimOf.part === samplePart ? samplePart : "shims of the platform's containers";
  }
  return isAgent ? agentPart : "the agent's shells";
}

function controlGroupOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cgroup`, 'utf8');
  } catch {
    return '';
  }
}
