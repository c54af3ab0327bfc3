/** Things of a cluster as its API shows them. For tests. */
import type { App, Deployment, Formation, Job, Release } from '@flynn/controller/model';
import type { RouteView } from '@flynn/controller/routes/api';
import { httpSettingsSchema, tcpSettingsSchema } from '@flynn/controller/routes/settings';
import type { StreamEvent } from '../api/streams.ts';
import { World, type ToldKind } from './world.ts';

const at = '2030-01-31T12:00:00.000Z';

export function someApp(more: Partial<App> = {}): App {
  const app = { id: 'a1', name: 'shop', meta: {}, isSystem: false, releaseId: 'r1', deployTimeoutMs: 120_000 };
  return { ...app, createdAt: at, updatedAt: at, ...more };
}

export function someFormation(processes: Record<string, number>, more: Partial<Formation> = {}): Formation {
  return { appId: 'a1', releaseId: 'r1', processes, createdAt: at, updatedAt: at, ...more };
}

export function someJob(more: Partial<Job> = {}): Job {
  const job = { id: 'j1', workloadId: 'w1', appId: 'a1', releaseId: 'r1', type: 'web', state: 'running' as const };
  return { ...job, hostId: 'h1', restarts: 0, createdAt: at, startedAt: at, ...more };
}

export function someDeployment(more: Partial<Deployment> = {}): Deployment {
  return { id: 'd1', appId: 'a1', newReleaseId: 'r1', state: 'complete', progress: {}, createdAt: at, ...more };
}

export function someRelease(more: Partial<Release> = {}): Release {
  const release = { id: 'r1', appId: 'a1', version: 1, artifactId: 'x', env: {}, processes: {}, meta: {} };
  return { ...release, createdAt: at, ...more };
}

export function someRoute(more: Partial<RouteView> = {}): RouteView {
  const route = {
    id: 'x1',
    appId: 'a1',
    type: 'http' as const,
    domain: 'shop.example.com',
    path: '/',
    service: 'shop-web',
  };
  return { ...route, http: httpSettingsSchema.parse({}), tcp: tcpSettingsSchema.parse({}), createdAt: at, ...more };
}

/** As the stream of changes tells it. */
export function put(event: string, object: { id: string } | { appId: string; releaseId: string }): StreamEvent {
  const id = 'id' in object ? object.id : `${object.appId}:${object.releaseId}`;
  return { event, data: { type: 'put', id, object } };
}

/** All there is was told. */
export const whole: StreamEvent = { event: 'current', data: { type: 'put', id: 'current' } };

/** One that has been told all of that. */
export function worldOf(told: readonly (readonly [kind: ToldKind, object: { id: string } | Formation])[]): World {
  const world = new World();
  world.begin();
  for (const [kind, object] of told) world.take(put(kind, object));
  world.take(whole);
  return world;
}
