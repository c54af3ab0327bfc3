/** Who may do what at an agent's API, by role; the cluster key is asked for besides. And whether there is anybody left without one. */
import { type RoleRules } from '@flynn/kit/http-gate';
import { anyHost, appRole, isOfRole } from '@flynn/kit/identity';
import type { Route } from '@flynn/kit/routes';
import type { HostRecord } from '@flynn/scheduler/cell';
import { routes } from '../api.ts';
import { buildRoutes } from '../api-builds.ts';
import type { Container } from '../engine.ts';
import { installationRoutes } from '../installation.ts';
import { label } from '../labels.ts';

const builder = appRole('slug-builder');
/** An image that was built is read to be stored. */
const ofBuilds: readonly Route[] = [...Object.values(buildRoutes), routes.image];
const ofInstallations: readonly Route[] = Object.values(installationRoutes);

function isOneOf(routes: readonly Route[], route: Route): boolean {
  return routes.some(({ method, path }) => method === route.method && path === route.path);
}

/**
 * Hosts everything; the controller, too, but what hosts run is theirs alone to change; the slug builder what builds take;
 * nobody else anything.
 */
function admits(peer: string, route: Route): boolean {
  if (isOfRole(peer, anyHost)) return true;
  if (peer === appRole('controller')) return !isOneOf(ofInstallations, route);
  return peer === builder && isOneOf(ofBuilds, route);
}

/** `records`: all hosts there are, as they were last heard of. */
export function agentRules(records: () => readonly HostRecord[]): RoleRules {
  return {
    admits,
    isClosed: () => {
      const known = records();
      return known.length > 0 && known.every(({ mutual }) => mutual !== undefined && mutual.withoutIdentity === 0);
    },
  };
}

/** Jobs of this host that may reach agents and cannot prove who they are: of a version from before. */
export function withoutIdentity(containers: readonly Container[]): number {
  return containers.filter(
    ({ state, labels }) =>
      state === 'running' &&
      labels[label.access]?.split(',').includes('agents') === true &&
      labels[label.identity] === undefined,
  ).length;
}
