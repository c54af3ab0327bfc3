/** Resources as the API shows them. Pure. */
import type { App, Artifact, Deployment, Formation, Key, Operation, Release, Route } from './model.ts';
import type {
  AppResource,
  ArtifactResource,
  DeploymentResource,
  FormationResource,
  KeyResource,
  OperationResource,
  ReleaseResource,
  RouteResource,
} from './resources.ts';
import { shownHttp } from './routes/guard.ts';

export function viewApp({ id, spec, status, createdAt, updatedAt }: AppResource): App {
  const { hasOwnVolumes: _own, removesVolumes: _removes, ...shown } = spec;
  return {
    id,
    ...shown,
    ...(status.releaseId === undefined ? {} : { releaseId: status.releaseId }),
    createdAt,
    updatedAt,
  };
}

export function viewArtifact({ id, spec, createdAt }: ArtifactResource): Artifact {
  return { id, ...spec, createdAt };
}

export function viewRelease({ id, spec, createdAt }: ReleaseResource): Release {
  const { checks: _checks, ...shown } = spec;
  return { id, ...shown, createdAt };
}

export function viewFormation({ spec, createdAt, updatedAt }: FormationResource): Formation {
  return { ...spec, createdAt, updatedAt };
}

/** What a deployment's types have now; of one that ended, what they had at its end. */
export function viewDeployment(
  { id, spec, status, createdAt }: DeploymentResource,
  progress = status.progress,
): Deployment {
  const { isPromoted: _promoted, abort: _abort, steppedAt: _at, heldSince: _since, heldMs: _held, ...shown } = status;
  return {
    id,
    appId: spec.appId,
    ...(spec.oldReleaseId === undefined ? {} : { oldReleaseId: spec.oldReleaseId }),
    newReleaseId: spec.newReleaseId,
    rollout: spec.rollout,
    ...shown,
    progress,
    createdAt,
  };
}

export function viewRoute(route: RouteResource): Route {
  const { http, ...told } = routeForRouters(route);
  return { ...told, http: shownHttp(http) };
}

/** With what is for nobody else. */
export function routeForRouters({ id, spec, createdAt, revision }: RouteResource): Route {
  return { id, ...spec, createdAt, revision };
}

export function viewKey({ spec, createdAt }: KeyResource): Key {
  return { ...spec, createdAt };
}

/** `waitsFor`: while it is queued or waiting. */
export function viewOperation({ id, spec, status, createdAt }: OperationResource, waitsFor?: string): Operation {
  const { heartbeatAt: _beat, dependents: _dependents, place: _place, rank: _rank, ...shown } = status;
  const { asker: _asker, ...asked } = spec;
  return { id, ...asked, ...shown, createdAt, ...(waitsFor === undefined ? {} : { waitsFor }) };
}
