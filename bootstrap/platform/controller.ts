/** The first controller: run directly on Layer 0 until it has made itself an app, then taken away. */
import { hasCode } from '@flynn/kit/errors';
import { newId } from '@flynn/kit/ids';
import type { Logger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import type { Instance } from '@flynn/discovery/api';
import type { DiscoveryClient } from '@flynn/discovery/client';
import { processSchema } from '@flynn/controller/processes/process';
import { knownEndpoints } from '@flynn/host-agent/cluster/membership';
import { readSealingKeys } from '@flynn/host-agent/cluster/sealing-keys';
import { hostAuthoritiesOf } from '@flynn/host-agent/trust/authorities';
import { cellKeys } from '@flynn/scheduler/cell';
import type { WorkloadInput } from '@flynn/scheduler/cell';
import { workloadChange, workloadRemoval } from '@flynn/scheduler/evaluations';
import { connectEtcd } from '@flynn/store/etcd';
import { SealedEtcd } from '@flynn/store/sealing/sealed-store';
import type { Store } from '@flynn/store/store';
import { ensureHostCertificate } from '../joining/certificates.ts';
import { firstMeta } from './controller-client.ts';
import { type SystemApp, controllerService } from './manifest.ts';
import { sealingKeysOf } from '../rotation/sealing-key-round.ts';
import type { Cluster } from '../settings.ts';
import { withLatestAuthorities } from '../state.ts';
import { digestOf } from '../images/tag.ts';

/** No app has this name in front of its workloads' ids. */
const idPrefix = 'bootstrap-';
const upMs = 90_000;
const comeBackMs = 45_000;

/** The workloads that run an app's processes without a controller. */
export function firstWorkloads(app: SystemApp): WorkloadInput[] {
  return Object.entries(app.processes).map(([type, input]) => {
    const process = processSchema.parse(input);
    const template: WorkloadInput['template'] = {
      image: { name: app.image },
      command: process.command ?? [],
      env: { ...app.env, ...process.env },
      ports: process.ports,
      resources: { memoryBytes: process.memoryBytes, cpuMillis: process.cpuMillis },
      access: ['discovery', 'agents', 'store', 'services'],
      identity: app.name,
      isAlwaysIdentified: true,
      meta: { 'flynn.system': 'true', [firstMeta]: type },
    };
    const version = digestOf(JSON.stringify(template)).slice(0, 16);
    return { id: `${idPrefix}${app.name}-${type}`, kind: 'service', count: 1, version, template, priority: 90 };
  });
}

/** The store as the host knows it. */
export async function withStore<T>(
  host: { stateDir: string; cluster: Cluster; log: Logger },
  task: (store: Store) => Promise<T>,
): Promise<T> {
  // The agent may have taken over a round since the file was read: its certificate is not to be of the one before again.
  const cluster = await withLatestAuthorities(host.stateDir, host.cluster);
  const { certificate, privateKey } = await ensureHostCertificate(host.stateDir, cluster);
  const endpoints = await knownEndpoints(host.stateDir, cluster.etcdEndpoints);
  const tls = { ca: hostAuthoritiesOf(cluster), certificate, privateKey };
  const etcd = connectEtcd({ endpoints, tls, log: host.log });
  // Those the agent has on its disk as well: while this runs it may hear of another one.
  const sealingKeys = async (): Promise<string[]> => [
    ...new Set([...sealingKeysOf(cluster), ...(await readSealingKeys(host.stateDir))]),
  ];
  await using store = new SealedEtcd(etcd, { sealingKeys, log: host.log });
  // Reading finds a member that answers, where others are away; a write that came first would not look for one.
  await store.get(cellKeys.host(cluster.hostId));
  return await task(store);
}

export type ControllerPlaces = Readonly<{
  discovery: Pick<DiscoveryClient, 'instances'>;
  /** A read that this instance has to ask the store for. */
  ask: (instance: Instance) => Promise<void>;
  report: (line: string) => void;
}>;

/**
 * Answers once it serves. Does nothing when a controller runs already, whichever it is. One that is an app already gets
 * time to come back by itself, as after a boot, before the first one is run again to mend it: beside the others, where those
 * run and the store does not let them in, as once their certificate is over.
 */
export async function ensureController(
  store: Store,
  app: SystemApp,
  { discovery, ask, report }: ControllerPlaces,
): Promise<'started' | 'running'> {
  const isLetIn = async (instance: Instance): Promise<boolean> => {
    try {
      await ask(instance);
      return true;
    } catch (error) {
      // What else is the matter with one, whoever asks it for more is told, and asks again.
      return !hasCode(error, 'unauthenticated');
    }
  };
  const stateNow = async (): Promise<'none' | 'shut out' | 'serving'> => {
    const instances = await discovery.instances(controllerService);
    if (instances.length === 0) return 'none';
    return (await Promise.all(instances.map(isLetIn))).every(Boolean) ? 'serving' : 'shut out';
  };
  let state = await stateNow();
  if (state === 'none') {
    const { entries } = await store.list(cellKeys.workloads);
    if (entries.some(({ key }) => !key.startsWith(`${cellKeys.workloads}${idPrefix}`))) {
      report('waiting for the controller to come back');
      const isBack = async (): Promise<boolean> => (state = await stateNow()) !== 'none';
      try {
        await waitFor(isBack, { what: 'the controller', deadlineMs: comeBackMs, intervalMs: 200 });
      } catch (error) {
        if (!hasCode(error, 'timeout')) throw error;
      }
    }
  }
  if (state === 'serving') return 'running';
  report(
    state === 'shut out'
      ? 'the store does not let in the controller that runs: running another beside it, directly on the host'
      : 'running the controller directly on the host',
  );
  for (const workload of firstWorkloads(app)) {
    await store.transact({ then: workloadChange(workload, { now: Date.now(), newId }) });
  }
  const isFirstServing = async (): Promise<boolean> => {
    const first = await discovery.instances(controllerService, { where: { [firstMeta]: 'web' } });
    // One that an earlier attempt left may be about to be replaced.
    return first.length > 0 && (await Promise.all(first.map(isLetIn))).every(Boolean);
  };
  await waitFor(isFirstServing, { what: 'the controller', deadlineMs: upMs, intervalMs: 100 });
  return 'started';
}

/** How many workloads of the first controller there were. */
export async function removeFirstController(store: Store): Promise<number> {
  const { entries } = await store.list(`${cellKeys.workloads}${idPrefix}`);
  for (const { key } of entries) {
    const id = key.slice(cellKeys.workloads.length);
    await store.transact({ then: workloadRemoval(id, { now: Date.now(), newId }) });
  }
  return entries.length;
}
