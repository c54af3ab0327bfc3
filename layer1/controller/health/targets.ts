/** Where the platform's figures are read: what Prometheus' HTTP discovery asks for. Pure. */
import { metricsPort } from '@flynn/kit/metrics-server';
import type { HostRecord, JobStatus } from '@flynn/scheduler/cell';
import type { Target } from './api.ts';

/** What serves its figures beside its API; whatever else is the platform's does so on a port for that. */
const apiPorts: Readonly<Record<string, number>> = {
  'controller web': 3000,
  'blobstore web': 8080,
  'log-aggregator web': 8080,
};
const routerStatusPort = 1114;

/** `statuses` of the platform's own apps. */
export function targetsOf(hosts: readonly HostRecord[], statuses: readonly JobStatus[]): Target[] {
  const agents = hosts
    .toSorted((a, b) => (a.id < b.id ? -1 : 1))
    .map(({ id, address, apiPort }) => target(`${address}:${apiPort}`, 'host-agent', id));
  const addressOf = new Map(hosts.map(({ id, address }) => [id, address]));
  const jobs = statuses.flatMap(({ state, meta, address, hostId, id }) => {
    const name = `${meta['flynn.app_name'] ?? ''} ${meta['flynn.type'] ?? ''}`;
    const isRouter = meta['flynn.app_name'] === 'router';
    const at = isRouter ? addressOf.get(hostId) : address;
    if (state !== 'running' || at === undefined || name.endsWith(' build')) return [];
    const port = isRouter ? routerStatusPort : (apiPorts[name] ?? metricsPort);
    return [target(`${at}:${port}`, name.replace(' ', '-'), hostId, { flynn_job: id })];
  });
  return [...agents, ...jobs];
}

function target(address: string, component: string, host: string, more: Target['labels'] = {}): Target {
  return { targets: [address], labels: { component, host, ...more } };
}
