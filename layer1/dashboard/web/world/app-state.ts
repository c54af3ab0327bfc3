/** How is an app, in a word and in counts? Pure. */
import { holdsCounts } from '@flynn/controller/deployments/phases';
import type { App, Deployment, Formation, Job } from '@flynn/controller/model';
import type { RouteView } from '@flynn/controller/routes/api';
import { newestFirst, type World } from './world.ts';

export const appStates = [
  'new',
  'deploying',
  'waiting',
  'maintenance',
  'off',
  'up',
  'partly',
  'down',
  'crashed',
] as const;
export type AppState = (typeof appStates)[number];

/** Of one process type. `up` may be more than `wanted`: of a type that every host has one of. */
export type TypeCount = Readonly<{ type: string; wanted: number; up: number; crashed: number }>;

export type AppView = Readonly<{
  app: App;
  state: AppState;
  counts: readonly TypeCount[];
  /** Of the live release, and one-off jobs. */
  jobs: readonly Job[];
  routes: readonly RouteView[];
  /** The newest, if there was one. */
  deployment: Deployment | undefined;
}>;

const crashedStates: ReadonlySet<Job['state']> = new Set(['crashed', 'failed', 'lost']);
const overStates: ReadonlySet<Job['state']> = new Set(['done', 'failed', 'lost']);

export function isOver({ state }: Pick<Job, 'state'>): boolean {
  return overStates.has(state);
}

/** It changes which jobs there are, or waits to. */
export function isUnderWay(deployment: Deployment | undefined): deployment is Deployment {
  return deployment !== undefined && (holdsCounts(deployment) || deployment.state === 'finishing');
}

export function countsOf(formation: Formation | undefined, jobs: readonly Job[]): TypeCount[] {
  return Object.entries(formation?.processes ?? {})
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([type, wanted]) => {
      const own = jobs.filter((job) => job.type === type && job.releaseId === formation?.releaseId);
      return {
        type,
        wanted,
        up: own.filter(({ state }) => state === 'running').length,
        crashed: own.filter(({ state }) => crashedStates.has(state)).length,
      };
    });
}

export function stateOf(facts: {
  app: Pick<App, 'releaseId'>;
  deployment: Deployment | undefined;
  counts: readonly TypeCount[];
  routes: readonly Pick<RouteView, 'type' | 'http'>[];
}): AppState {
  const { app, deployment, counts, routes } = facts;
  if (isUnderWay(deployment)) {
    return deployment.state === 'canary' || deployment.state === 'paused' ? 'waiting' : 'deploying';
  }
  if (app.releaseId === undefined) return 'new';
  const wanted = counts.filter((count) => count.wanted > 0);
  if (wanted.length === 0) return 'off';
  const isShort = (count: TypeCount) => count.up < count.wanted;
  if (!wanted.some(isShort)) return isInMaintenance(routes) ? 'maintenance' : 'up';
  if (wanted.some(({ up }) => up > 0)) return 'partly';
  return wanted.some(({ crashed }) => crashed > 0) ? 'crashed' : 'down';
}

/** All requests are answered with the maintenance page. */
export function isInMaintenance(routes: readonly Pick<RouteView, 'type' | 'http'>[]): boolean {
  const http = routes.filter(({ type }) => type === 'http');
  return http.length > 0 && http.every((route) => route.http.maintenance !== undefined);
}

export function viewOf(world: World, app: App): AppView {
  const jobs = world.of('job', app.id);
  const routes = world.of('route', app.id).toSorted((a, b) => (a.createdAt < b.createdAt ? -1 : 1));
  const [deployment] = newestFirst(world.of('deployment', app.id));
  const formation = world.of('formation', app.id).find(({ releaseId }) => releaseId === app.releaseId);
  const counts = countsOf(formation, jobs);
  return { app, jobs, routes, deployment, counts, state: stateOf({ app, deployment, counts, routes }) };
}

/** Whether all is the same that a list of apps shows: objects are others when they have changed. */
export function isSameRow(one: AppView, other: AppView): boolean {
  const { app, state, deployment, counts, routes } = one;
  return (
    app === other.app &&
    state === other.state &&
    deployment === other.deployment &&
    isSame(routes, other.routes, (route, its) => route === its) &&
    isSame(counts, other.counts, (count, its) => {
      return count.type === its.type && count.wanted === its.wanted && count.up === its.up;
    })
  );
}

function isSame<T>(all: readonly T[], others: readonly T[], same: (one: T, other: T) => boolean): boolean {
  if (all.length !== others.length) return false;
  return all.every((one, at) => {
    const other = others[at];
    return other !== undefined && same(one, other);
  });
}
