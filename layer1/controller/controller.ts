/** Puts the controller together: mirrors of what it reads, and what its parts are given. */
import type { BlobClient } from '@flynn/blobstore/client';
import { Routers } from '@flynn/discovery/routers';
import { HttpClient, type MutualClient } from '@flynn/kit/http-client';
import type { LiveIdentity } from '@flynn/kit/identity';
import type { Handler } from '@flynn/kit/http-server';
import { newId } from '@flynn/kit/ids';
import type { Logger } from '@flynn/kit/log';
import { ResourceService } from '@flynn/resource/service';
import { SealedStore } from '@flynn/store/sealing/sealed-store';
import type { Store } from '@flynn/store/store';
import { Announced } from './access/announced.ts';
import { grantHandlers } from './access/grants.ts';
import { loginHandlers } from './access/login.ts';
import { tokenHandlers } from './access/tokens.ts';
import { userHandlers } from './access/users.ts';
import { appHandlers } from './apps/apps.ts';
import { autoscaleHandlers } from './autoscale/settings.ts';
import { auditHandlers } from './audit/reading.ts';
import { recordingStore } from './audit/mutation.ts';
import { backupHandlers } from './backup/handlers.ts';
import { buildHandlers } from './builds/builds.ts';
import { collectionHandlers } from './collection/handlers.ts';
import type { Directory } from './access/directory.ts';
import { HeldBlobs } from './collection/held-blobs.ts';
import { OwnBlobs } from './collection/own-blobs.ts';
import { ByApp } from './mirrors/by-app.ts';
import { openCellView } from './mirrors/cell-view.ts';
import { acmeHandlers } from './certificates/acme/settings.ts';
import { certificateHandlers } from './certificates/certificates.ts';
import { cronHandlers } from './cron/crons.ts';
import { datastoreHandlers } from './datastores/handlers.ts';
import { datastoreBackupHandlers } from './datastore-backups/handlers.ts';
import { datastoreHistoryHandlers } from './datastore-history/handlers.ts';
import { deploymentHandlers } from './deployments/deployments.ts';
import type { ControllerSettings, Deps, RoutersOfCluster } from './deps.ts';
import { drainHandlers } from './drains/drains.ts';
import { evaluationHandlers } from './hosts/evaluations.ts';
import { formationHandlers } from './formations/formations.ts';
import { genericHandlers } from './generic/handlers.ts';
import { Kinds } from './generic/kind.ts';
import type { Kind } from './generic/kind.ts';
import { platformKinds } from './generic/kinds.ts';
import { createHostClients } from './hosts/clients.ts';
import { hostHandlers } from './hosts/hosts.ts';
import { jobHandlers } from './jobs/jobs.ts';
import { keyHandlers } from './keys/keys.ts';
import { layerHandlers } from './collection/layers.ts';
import { notificationHandlers } from './notifications/handlers.ts';
import { operationHandlers } from './operations/operations.ts';
import { platformHandlers } from './platform/platform.ts';
import { resourceHandlers } from './providers/handlers.ts';
import { providerHandlers } from './providers/providers.ts';
import { releaseHandlers } from './releases/releases.ts';
import { keepBackDuring } from './operations/kept-back.ts';
import { openOperations } from './operations/parts.ts';
import { deploymentType } from './resources.ts';
import type { Shown } from './certificates/shown.ts';
import { openBriefRoutes } from './routes/brief.ts';
import { routingHandlers } from './routes/routing.ts';
import { runnerRegistryHandlers } from './operations/runner-registry.ts';
import { runnerBlobHandlers } from './operations/runner-blobs.ts';
import { runnerHandlers } from './operations/runners.ts';
import { runnerEnvHandlers } from './runner-env/handlers.ts';
import { sealingHandlers } from './sealing/handlers.ts';
import { hookHandlers } from './source/hook/handlers.ts';
import type { HookResource } from './source/hook/resource.ts';
import { sourceHandlers } from './source/sources.ts';
import { volumeHandlers } from './volumes/handlers.ts';

export type ControllerParts = AsyncDisposable & { readonly deps: Deps };

/** Resolves once everything that is read from mirrors is there. */
export async function openController(options: {
  store: Store;
  settings: ControllerSettings;
  /** Towards host agents; runners of the platform show that they hold it. */
  clusterKey: string;
  /** As which it speaks with host agents. */
  identity?: LiveIdentity | undefined;
  log: Logger;
  now?: () => number;
  signal?: AbortSignal;
  /** Beside the platform's own. */
  kinds?: readonly Kind[];
  /** Default: there are none. */
  routers?: RoutersOfCluster;
  /** Default: none is. */
  isServed?: Deps['isServed'];
}): Promise<ControllerParts> {
  const { settings, log, signal, now = Date.now } = options;
  const store = recordingStore(options.store);
  const resources = new ResourceService({ store, now, newId, log });
  const kinds = new Kinds([...platformKinds, ...(options.kinds ?? [])]);
  const limits = signal === undefined ? {} : { signal };
  const [cell, operations, deployments, routes] = await Promise.all([
    openCellView({ store, log, ...limits }),
    // What of several requests goes in one transaction is none of theirs.
    openOperations({ store: options.store, resources, log, now, ...limits }),
    resources.mirror(deploymentType, limits),
    openBriefRoutes({ store, log, ...limits }),
  ]);
  keepBackDuring(deployments, operations.parts);
  const hosts = createHostClients({ cell, key: options.clusterKey, identity: options.identity });
  const nobody = new Routers({ instances: async () => [], key: options.clusterKey, log });
  return {
    deps: {
      store,
      sealed: options.store instanceof SealedStore ? options.store : undefined,
      resources,
      kinds,
      cell,
      hosts,
      ...operations.parts,
      runnerKey: options.clusterKey,
      deployments,
      deploymentsByApp: new ByApp(deployments, ({ spec }) => spec.appId),
      routesByApp: new ByApp(routes, ({ appId }) => appId),
      announced: new Announced({ resources, store, log }),
      routers: options.routers ?? nobody,
      isServed: options.isServed ?? (async () => false),
      settings,
      log,
      now,
      newId,
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([hosts, cell, operations, deployments, routes].map((part) => part[Symbol.asyncDispose]()));
    },
  };
}

/** `logAggregatorUrl` is asked before each read, so that it follows discovery. */
export function logAggregatorClient(options: {
  baseUrl: () => Promise<string>;
  key: string;
  mutual?: MutualClient;
}): HttpClient {
  return new HttpClient({ ...options, name: 'the log aggregator' });
}

/** Every route of api.ts. */
export function controllerHandlers(
  deps: Deps,
  {
    logAggregator,
    blobs,
    directory,
    certificates,
    hooks,
  }: {
    logAggregator: HttpClient;
    blobs: BlobClient;
    directory: Directory;
    certificates: () => Iterable<Shown>;
    /** By id. */
    hooks: (id: string) => HookResource | undefined;
  },
): Handler[] {
  const held = new HeldBlobs(deps, blobs);
  const own = new OwnBlobs(deps, blobs, { directory, held });
  return [
    ...appHandlers(deps),
    ...releaseHandlers(deps, own, directory),
    ...formationHandlers(deps),
    ...autoscaleHandlers(deps),
    ...deploymentHandlers(deps, directory),
    ...jobHandlers(deps),
    ...cronHandlers(deps),
    ...sourceHandlers(deps, certificates),
    ...hookHandlers(deps, certificates, hooks),
    ...buildHandlers(deps),
    ...routingHandlers(deps, certificates),
    ...certificateHandlers(deps),
    ...acmeHandlers(deps),
    ...keyHandlers(deps),
    ...operationHandlers(deps, own),
    ...runnerHandlers(deps, held),
    ...runnerRegistryHandlers(deps),
    ...runnerBlobHandlers(held, blobs),
    ...runnerEnvHandlers(deps),
    ...hostHandlers(deps, blobs),
    ...evaluationHandlers(deps),
    ...volumeHandlers(deps),
    ...genericHandlers(deps),
    ...drainHandlers(deps, logAggregator),
    ...notificationHandlers(deps),
    ...providerHandlers(deps),
    ...resourceHandlers(deps),
    ...datastoreHandlers(deps),
    ...datastoreBackupHandlers(deps, blobs),
    ...datastoreHistoryHandlers(deps),
    ...platformHandlers(deps, logAggregator, certificates),
    ...layerHandlers(deps, blobs, own),
    ...collectionHandlers(deps, blobs),
    ...backupHandlers(deps, blobs),
    ...sealingHandlers(deps),
    ...userHandlers(deps),
    ...grantHandlers(deps),
    ...tokenHandlers(deps),
    ...loginHandlers(deps),
    ...auditHandlers(deps),
  ];
}
