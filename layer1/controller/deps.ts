/** What the controller's parts are given. */
import type { Routers } from '@flynn/discovery/routers';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { writePiece } from '@flynn/resource/piece';
import type { Piece } from '@flynn/resource/piece';
import { compareOf } from '@flynn/resource/record';
import type { ResourceService } from '@flynn/resource/service';
import type { Mirror } from '@flynn/store/mirror';
import type { SealedStore } from '@flynn/store/sealing/sealed-store';
import type { Store } from '@flynn/store/store';
import type { Announced } from './access/announced.ts';
import type { OidcSettings } from './access/oidc.ts';
import type { ByApp } from './mirrors/by-app.ts';
import type { CellView } from './mirrors/cell-view.ts';
import type { RunnableApp } from './processes/compile.ts';
import type { Kinds } from './generic/kind.ts';
import type { HostClients } from './hosts/clients.ts';
import { oneOffLimitsOf } from './jobs/one-off-limits.ts';
import type { OperationDispatch } from './operations/dispatch.ts';
import type { OperationHistory } from './operations/history.ts';
import type { OperationQueue } from './operations/queue.ts';
import type { OperationWriter } from './operations/writer.ts';
import { appType } from './resources.ts';
import type { AppResource, DeploymentResource, OperationResource, RunnerResource } from './resources.ts';
import type { RunnerEnvResource } from './runner-env/resource.ts';
import type { PortRange } from './routes/address.ts';
import type { RouteBrief } from './routes/brief.ts';

export type ControllerSettings = {
  name: string;
  domain: string;
  formerDomains: readonly string[];
  gitUrl: string;
  /** The git receiver's public key. */
  gitHostKey?: string;
  httpPort: number;
  /** Where tcp routes that name no port are; default 3000 to 3500. */
  tcpPorts?: PortRange;
  httpsPort: number;
  slugRunnerImage: string;
  /** Of each kind of datastore, by its name; without one there are none of it. */
  applianceImages?: Readonly<Record<string, string>>;
  version: string;
  /** Whether runners may be given logins of registries, default: yes. */
  keepsRegistryLogins?: boolean;
  /** Without it users have tokens only. */
  oidc?: OidcSettings;
};

/** Those that are announced now. */
export type RoutersOfCluster = Pick<Routers, 'missing' | 'ask'>;

export type Deps = {
  store: Store;
  /** The same store past the trail, where it seals. */
  sealed: SealedStore | undefined;
  resources: ResourceService;
  kinds: Kinds;
  cell: CellView;
  hosts: HostClients;
  /** Live ones. */
  operations: Mirror<OperationResource>;
  queue: OperationQueue;
  writer: OperationWriter;
  dispatch: OperationDispatch;
  history: OperationHistory;
  runners: Mirror<RunnerResource>;
  runnerEnvs: Mirror<RunnerEnvResource>;
  /** Makes the tokens of the platform's own runners. */
  runnerKey: string;
  deployments: Mirror<DeploymentResource>;
  /** What that mirror has, by app. */
  deploymentsByApp: Pick<ByApp<DeploymentResource>, 'of'>;
  /** A moment behind the store, as every mirror. */
  routesByApp: Pick<ByApp<RouteBrief>, 'of'>;
  announced: Announced;
  routers: RoutersOfCluster;
  /** Whether a service has instances in discovery. `unavailable` while that is away. */
  isServed: (service: string, signal: AbortSignal) => Promise<boolean>;
  settings: ControllerSettings;
  log: Logger;
  now: () => number;
  newId: () => string;
};

/** By id or name. An app that is being deleted takes no more changes. */
export async function findApp(
  deps: Pick<Deps, 'resources'>,
  nameOrId: string,
  signal?: AbortSignal,
): Promise<AppResource> {
  try {
    return await deps.resources.lookup(appType, nameOrId, signal === undefined ? {} : { signal });
  } catch (error) {
    if (!(error instanceof FlynnError) || error.code !== 'not_found') throw error;
    throw noApp(nameOrId);
  }
}

/** Said of what is not there, and in the same words of what the caller may not know of. */
export function noApp(nameOrId: string): FlynnError {
  return new FlynnError('not_found', `there is no app "${nameOrId}"; list them with: flynn apps`, {
    detail: { app: nameOrId },
  });
}

export async function findLiveApp(
  deps: Pick<Deps, 'resources'>,
  nameOrId: string,
  signal?: AbortSignal,
): Promise<AppResource> {
  const app = await findApp(deps, nameOrId, signal);
  checkLive(app);
  return app;
}

/** Throws `conflict`. */
export function checkLive({ deletingSince, spec }: AppResource): void {
  if (deletingSince !== undefined) throw new FlynnError('conflict', `the app ${spec.name} is being deleted`);
}

const maxAttempts = 8;

/**
 * Acts for an app that is live, and again if the app was changed meanwhile. `act` puts `compareOf(app)` into what it
 * writes: otherwise it could be written for an app that has just been deleted, and would stay for ever.
 */
export async function forLiveApp<T>(
  deps: Pick<Deps, 'resources'>,
  nameOrId: string,
  signal: AbortSignal,
  act: (app: AppResource) => Promise<T>,
): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    const app = await findLiveApp(deps, nameOrId, signal);
    try {
      return await act(app);
    } catch (error) {
      if (!isOvertaken(error, app) || attempt >= maxAttempts) throw error;
    }
  }
}

/**
 * In the transaction that makes one of what an app may have only so many of, with those counted after the app was read: of two
 * that are made at once the other is counted, since each of them writes the app.
 */
export function countedPiece({ now }: Pick<Deps, 'now'>, app: AppResource): Piece {
  return writePiece(appType, app, { ...app, updatedAt: new Date(now()).toISOString() });
}

/** Whether a transaction was refused because the app is not as it was read. */
export function isOvertaken(error: unknown, app: AppResource): boolean {
  return hasCode(error, 'conflict') && error.detail['key'] === compareOf(app).key;
}

/** What a release runs as: the app's part of it. */
export function runnableApp({ id, spec }: AppResource): RunnableApp {
  const { name, isSystem, hasOwnVolumes, meta, datastore } = spec;
  const isDatastore = datastore === undefined ? {} : { isDatastore: true };
  return { id, name, isSystem, hasOwnVolumes, ...isDatastore, oneOffLimits: oneOffLimitsOf(meta) };
}

/** What an evaluation is made of, at this moment. */
export function evaluationContext(deps: Pick<Deps, 'now' | 'newId'>): { now: number; newId: () => string } {
  return { now: deps.now(), newId: deps.newId };
}
