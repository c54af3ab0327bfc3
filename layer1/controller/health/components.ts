/** Which parts does the platform have, how many of each are wanted and healthy, where, and of which version? Pure. */
import type { ExaminedHost, ExaminedMember } from '@flynn/host-agent/doctor/api';
import type { Found } from '@flynn/host-agent/doctor/finding';
import type { SeenStatus } from '@flynn/scheduler/lost-jobs';
import { namesOf } from '../processes/compile.ts';
import { isDispensable } from '../formations/counts.ts';
import { hasEnded } from '../jobs/views.ts';
import type { Process } from '../processes/process.ts';
import type { AppResource, FormationResource, ReleaseResource } from '../resources.ts';
import type { Component } from './api.ts';

export type ComponentFacts = Readonly<{
  /** The platform's own. */
  apps: readonly AppResource[];
  releases: readonly ReleaseResource[];
  formations: readonly FormationResource[];
  /** Of the platform's apps. */
  statuses: readonly SeenStatus[];
  /** How many hosts there are for jobs of it. */
  hostsFor: (process: Process) => number;
  /** Undefined when no agent answered. */
  hosts: readonly ExaminedHost[] | undefined;
  etcd: readonly ExaminedMember[];
}>;

type Instance = { host: string; isHealthy: boolean; version: string | undefined };

export function componentsOf(facts: ComponentFacts): Component[] {
  return [...facts.apps.flatMap((app) => ofApp(app, facts)), ...ofHosts(facts)].toSorted((a, b) =>
    a.name < b.name ? -1 : 1,
  );
}

/** A type that serves others is a part also while nobody wants one; one that only runs when asked for is none. */
function ofApp(app: AppResource, { releases, formations, statuses, hostsFor }: ComponentFacts): Component[] {
  const live = releases.find(({ id }) => id === app.status.releaseId);
  if (live === undefined) return [];
  const counts = formations.find(({ id }) => id === live.id)?.spec.processes ?? {};
  const versionOf = new Map(releases.map(({ id, spec }) => [id, `v${spec.version}`]));
  return Object.entries(live.spec.processes).flatMap(([type, process]): Component[] => {
    const count = counts[type] ?? 0;
    const isServing = process.ports.some((port) => namesOf(port).length > 0);
    if (count === 0 && !isServing) return [];
    const wanted = process.omni
      ? count * Math.min(Math.max(1, hostsFor(process)), process.maxHosts ?? Infinity)
      : count;
    const instances = statuses
      .filter(({ meta }) => meta['flynn.app_name'] === app.spec.name && meta['flynn.type'] === type)
      .filter((status) => !hasEnded(status))
      .map(({ hostId, state, meta, isUncertain }) => ({
        host: hostId,
        isHealthy: state === 'running' && !isUncertain,
        version: versionOf.get(meta['flynn.release'] ?? ''),
      }));
    return [{ ...component(`${app.spec.name} ${type}`, wanted, instances), app: app.spec.name }];
  });
}

/** What runs on hosts by itself: one of each on every host that is of the cluster. */
function ofHosts({ hosts, etcd }: ComponentFacts): Component[] {
  const members = etcd.map(({ hostId, endpoint, isHealthy, version }) => ({
    host: hostId ?? endpoint,
    isHealthy,
    version,
  }));
  const parts = etcd.length === 0 ? [] : [component('etcd', etcd.length, members)];
  if (hosts === undefined) return parts;
  const of = (name: string, judge: (agent: NonNullable<ExaminedHost['agent']>) => Omit<Instance, 'host'>) => {
    const instances = hosts.flatMap(({ id, agent }) => (agent === undefined ? [] : [{ host: id, ...judge(agent) }]));
    return component(name, hosts.length, instances);
  };
  return [
    ...parts,
    of('host agent', ({ version }) => ({ isHealthy: true, version })),
    of('container engine', ({ engine }) => ({
      isHealthy: engine.isConnected && engine.isHung !== true,
      version: engine.version,
    })),
    of('scheduler', ({ scheduler, version }) => ({ isHealthy: scheduler !== 'off', version })),
  ];
}

function component(name: string, wanted: number, instances: readonly Instance[]): Component {
  const versions = new Set(instances.flatMap(({ version }) => (version === undefined ? [] : [version])));
  const byHost = Map.groupBy(instances, ({ host }) => host);
  return {
    name,
    wanted,
    healthy: instances.filter(({ isHealthy }) => isHealthy).length,
    versions: [...versions].toSorted(),
    hosts: [...byHost]
      .map(([host, here]) => ({
        host,
        instances: here.length,
        healthy: here.filter(({ isHealthy }) => isHealthy).length,
      }))
      .toSorted((a, b) => (a.host < b.host ? -1 : 1)),
  };
}

const why: Readonly<Record<string, string>> = {
  controller: 'nothing can be changed, deployed or scaled; what runs goes on',
  router: 'requests from outside find nobody on hosts without one',
  'git-receiver': 'git push is not answered',
  blobstore: 'builds and deployments cannot get or keep what they are made of',
  runner: 'builds and deployments wait',
  'log-aggregator': 'nobody can read logs; hosts keep them meanwhile',
  dashboard: 'the web page does not answer; the flynn command does all that it did',
};

/** Of parts that are apps: those of hosts are told by the hosts' own checks. What is dispensable may be turned off. */
export function componentFindings(components: readonly Component[]): Found[] {
  return components.flatMap(({ name, app, wanted, healthy }): Found[] => {
    if (app === undefined || (healthy >= wanted && wanted > 0)) return [];
    const mayBeOff = isDispensable({ name: app, isSystem: true });
    if (wanted === 0 && mayBeOff) return [];
    const look = `flynn -a ${app} ps and flynn -a ${app} log tell why`;
    return [
      {
        severity: healthy === 0 && !mayBeOff ? 'critical' : 'warning',
        subject: name,
        what: wanted === 0 ? 'none of it is wanted' : `${healthy} of ${wanted} instances are healthy`,
        why: why[app] ?? 'a part of the platform does less than it should',
        remedy: wanted === 0 ? `flynn -a ${app} scale ${name.slice(app.length + 1)}=1` : look,
      },
    ];
  });
}
