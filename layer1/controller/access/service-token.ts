/** The platform's own parts: what each of them may ask of the controller, and what it shows that it is that part. */
import { createHmac } from 'node:crypto';
import { appRole } from '@flynn/kit/identity';
import type { Route } from '@flynn/kit/routes';
import { feedRoute } from '@flynn/log-aggregator/api';
import { isSameSecret } from '@flynn/kit/secrets';
import { certificates } from '../certificates/api.ts';
import { layers } from '../collection/api-layers.ts';
import { runners } from '../operations/api-runners.ts';
import { apps, deployments, formations, jobs, releases } from '../api.ts';
import { deploymentControls } from '../deployments/api-controls.ts';
import { routing } from '../routes/api.ts';
import { runnerEnv } from '../runner-env/api.ts';
import { keys } from '../keys/api.ts';
import { platform } from '../platform/api.ts';
import { operations } from '../operations/api.ts';
import { runnerBlobs } from '../operations/api-runner-blobs.ts';

export const services = ['git-receiver', 'log-aggregator', 'router', 'runner'] as const;
export type Service = (typeof services)[number];

const builder = appRole('slug-builder');

const routesOf: Readonly<Record<Service, readonly Route[]>> = {
  router: [routing.events, certificates.events],
  'log-aggregator': [feedRoute],
  'git-receiver': [apps.list, apps.get, keys.get, deployments.list, operations.push, operations.log, operations.cancel],
  runner: [
    operations.claim,
    operations.heartbeat,
    operations.append,
    operations.report,
    runners.register,
    runnerEnv.watch,
    operations.get,
    jobs.build,
    jobs.get,
    jobs.attach,
    jobs.stop,
    releases.createArtifact,
    releases.getArtifact,
    releases.create,
    releases.list,
    releases.get,
    deployments.create,
    deployments.get,
    deployments.events,
    deployments.list,
    deploymentControls.abort,
    formations.get,
    formations.put,
    apps.get,
    routing.list,
    platform.cluster,
    layers.missing,
    ...Object.values(runnerBlobs),
  ],
};

/** Of one of them, or of all together: that is who has the cluster's key, which parts made before had instead. */
export function mayCall(service: Service | 'platform', route: Route): boolean {
  const known = service === 'platform' ? services.flatMap((name) => routesOf[name]) : routesOf[service];
  return known.includes(route);
}

/** With the cluster's key, for those who have shown who they are: all parts but builds have tokens. */
export function mayCallWithKey(peer: string, route: Route): boolean {
  return peer === builder && route === layers.missing;
}

/**
 * Made of the root key, which none of them knows: no part can make itself another's. Anew with every root key, and with every
 * round; the first is 0.
 */
export function serviceToken(rootKey: string, service: Service, round = 0): string {
  const text = `flynn service token: ${service}${round === 0 ? '' : ` ${round}`}`;
  return `flynn_service_${service}_${createHmac('sha256', rootKey).update(text).digest('base64url')}`;
}

/** What was made of any of the root keys, in any of the rounds, is good. */
export function serviceOf(token: string, rootKeys: readonly string[], rounds: readonly number[]): Service | undefined {
  const isOf = (service: Service) => (rootKey: string) =>
    rounds.some((round) => isSameSecret(serviceToken(rootKey, service, round), token));
  return services.find((service) => rootKeys.some(isOf(service)));
}
