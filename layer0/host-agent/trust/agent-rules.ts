/**
 * Who may do what at an agent's API, by role; the cluster key is asked for besides. And whether there is anybody left without
 * one.
 */
import { type RoleRules } from '@flynn/kit/http-gate';
import { anyHost, appRole, isOfRole } from '@flynn/kit/identity';
import type { Route } from '@flynn/kit/routes';
import type { HostJob, HostRecord } from '@flynn/scheduler/cell';
import { routes } from '../api.ts';
import { buildRoutes } from '../builds/api.ts';
import { authoritiesRoute } from '../cluster/authority-rounds.ts';
import { sealingKeysRoute } from '../cluster/sealing-keys.ts';
import type { Container } from '../engine/engine.ts';
import { installationRoutes } from '../update/installation.ts';
import { label, ownLabel } from '../engine/labels.ts';

const builder = appRole('slug-builder');
/** An image that was built is read to be stored. */
const ofBuilds: readonly Route[] = [...Object.values(buildRoutes), routes.image];
const ofInstallations: readonly Route[] = Object.values(installationRoutes);
/** What opens everything. */
const ofHosts: readonly Route[] = [sealingKeysRoute, authoritiesRoute];

function isOneOf(routes: readonly Route[], route: Route): boolean {
  return routes.some(({ method, path }) => method === route.method && path === route.path);
}

/**
 * Hosts everything; the controller, too, but what hosts run and seal with is theirs alone; the slug builder what builds take;
 * nobody else anything.
 */
function admits(peer: string, route: Route): boolean {
  if (isOfRole(peer, anyHost)) return true;
  if (peer === appRole('controller')) return !isOneOf([...ofInstallations, ...ofHosts], route);
  return peer === builder && isOneOf(ofBuilds, route);
}

/** `records`: all hosts there are, as they were last heard of. `localKey`: root's on this machine. */
export function agentRules(records: () => readonly HostRecord[], localKey?: string): RoleRules {
  return {
    admits,
    localKey,
    needsPeer: (route) => isOneOf(ofHosts, route),
    isClosed: () => {
      const known = records();
      return known.length > 0 && known.every(({ mutual }) => mutual !== undefined && mutual.withoutIdentity === 0);
    },
  };
}

/**
 * Whether parts of the platform may keep out who shows no certificate: on no host there is a job that could ask them and may
 * have none to show. False for as long as a host is of a version that does not say.
 */
export function isEverybodyKnown(records: readonly HostRecord[], own: HostRecord): boolean {
  // Of this host what is so now: what it told the others may be a moment old.
  const known = records.map((record) => (record.id === own.id ? own : record));
  return known.length > 0 && known.every(({ mutual }) => mutual?.keyAlone === 0);
}

/**
 * Jobs of this host that may ask parts of the platform, and do it with their key alone or pass on what others ask so. Those
 * that are about to begin count too: what they need is there when they do. `assigned` tells it of containers that an agent
 * of before has made.
 */
export function keyAlone(containers: readonly Container[], assigned: readonly HostJob[]): number {
  const always = new Set(assigned.flatMap(({ id, template }) => (template.isAlwaysIdentified === true ? [id] : [])));
  return containers.filter(
    ({ state, labels }) =>
      state !== 'exited' &&
      labels[label.job] !== undefined &&
      labels[label.access] !== '' &&
      (ownLabel(labels, label.identity) === undefined ||
        (ownLabel(labels, label.alwaysIdentified) === undefined && !always.has(labels[label.job] ?? ''))),
  ).length;
}

/** Jobs of this host that may reach agents and cannot prove who they are: of a version from before. */
export function withoutIdentity(containers: readonly Container[]): number {
  return containers.filter(
    ({ state, labels }) =>
      state === 'running' &&
      labels[label.access]?.split(',').includes('agents') === true &&
      ownLabel(labels, label.identity) === undefined,
  ).length;
}
