/** The API as it is served: its handlers, audited, behind the gate. */
import type { IncomingMessage } from 'node:http';
import type { BlobClient } from '@flynn/blobstore/client';
import type { KnownCertificate } from '@flynn/host-agent/doctor/certificates';
import type { Gate } from '@flynn/kit/http-gate';
import type { HttpClient } from '@flynn/kit/http-client';
import type { Handler } from '@flynn/kit/http-server';
import { Metrics } from '@flynn/kit/metrics';
import { metricsHandler } from '@flynn/kit/metrics-server';
import { TaskGroup } from '@flynn/kit/tasks';
import type { Store } from '@flynn/store/store';
import { Directory } from './access/directory.ts';
import { accessGate } from './access/gate.ts';
import { heardIn } from './access/heard.ts';
import { inClear } from './access/in-clear.ts';
import { RateLimit, defaultRate } from './access/rate-limit.ts';
import type { RateSettings } from './access/rate-limit.ts';
import { grantType, teamType, tokenType, userType } from './access/resources.ts';
import { rotationCheck } from './access/rotation-findings.ts';
import { tokenCheck } from './access/token-findings.ts';
import { answersRoot, staleMs } from './audit/answers.ts';
import { audited } from './audit/audited.ts';
import { Sightings, keepLooking } from './audit/sightings.ts';
import { autoscaleFigures } from './autoscale/figures.ts';
import { autoscaleCheck } from './autoscale/findings.ts';
import { AuditTrail } from './audit/trail.ts';
import { backupCheck } from './backup/findings.ts';
import { controllerHandlers } from './controller.ts';
import type { Deps } from './deps.ts';
import { certificateType } from './certificates/resources.ts';
import { figuresHandlers } from './figures/handlers.ts';
import { FiguresWatch } from './figures/watch.ts';
import { backupFigures } from './datastore-backups/figures.ts';
import { datastoreBackupCheck } from './datastore-backups/findings.ts';
import { historyFigures } from './datastore-history/figures.ts';
import { datastoreHistoryCheck } from './datastore-history/findings.ts';
import { datastoreCheck } from './datastores/findings.ts';
import { authorityCheck } from './health/authority.ts';
import { collectionCheck } from './collection/findings.ts';
import { blobCheck } from './health/blobs.ts';
import { drainCheck } from './health/drains.ts';
import { healthHandlers } from './health/handlers.ts';
import { HealthEvents } from './health/events.ts';
import { HealthWatch } from './health/health.ts';
import { clusterMetrics } from './health/metrics.ts';
import { notificationCheck } from './notifications/findings.ts';
import { openApiHandler } from './openapi/handler.ts';
import { runnerType } from './resources.ts';
import { keptLoginsCheck } from './runner-env/findings.ts';
import { sealingCheck } from './sealing/findings.ts';
import { sourceCheck } from './source/findings.ts';
import { hookType } from './source/hook/resource.ts';

export type ControllerWeb = AsyncDisposable &
  Readonly<{
    handlers: readonly Handler[];
    gate: Gate;
    /** Of requests that came in clear: see access/in-clear.ts. */
    elsewhere: (request: IncomingMessage) => string | undefined;
    trail: AuditTrail;
    health: HealthWatch;
    figures: FiguresWatch;
  }>;

/** Resolves once it knows everybody who may come. */
export async function openWeb(options: {
  deps: Deps;
  /** The one `deps` was made of. */
  store: Store;
  logAggregator: HttpClient;
  blobs: BlobClient;
  /** Each opens everything; two while the root key is made anew. */
  rootKeys: readonly string[];
  clusterKey: string;
  /** Default: the first. */
  tokenRounds?: readonly number[];
  rate?: RateSettings;
  /** Whose end is to be told of in time, beside those of routes and hosts. */
  certificates?: readonly KnownCertificate[];
  /** What this process counts: served at `/metrics`. */
  metrics?: Metrics;
  /** Milliseconds since some moment, for tests; default performance.now(). */
  steadyNow?: (() => number) | undefined;
}): Promise<ControllerWeb> {
  const { deps, store, rootKeys, clusterKey, tokenRounds = [0], rate = defaultRate } = options;
  const { resources, now, newId, log } = deps;
  const trail = new AuditTrail({ store, log, now, newId });
  const rateLimit = new RateLimit(rate, now);
  const directory = await Directory.open({ store, resources, now, strangers: rateLimit });
  const certificates = await resources.mirror(certificateType);
  const hooks = await resources.mirror(hookType);
  const metrics = options.metrics ?? new Metrics();
  const health = new HealthWatch(deps, {
    certificates: options.certificates ?? [],
    checks: [
      backupCheck(deps),
      collectionCheck(deps),
      datastoreCheck(deps),
      datastoreBackupCheck(deps),
      datastoreHistoryCheck(deps),
      sealingCheck(deps),
      tokenCheck(deps),
      rotationCheck({ rootKeys, tokenRounds }),
      authorityCheck(deps),
      blobCheck(options.blobs, now),
      drainCheck(deps, options.logAggregator),
      notificationCheck(deps),
      sourceCheck(deps),
      keptLoginsCheck(deps),
      autoscaleCheck(deps),
    ],
    events: new HealthEvents({ store, now, newId }),
  });
  const watch = new FiguresWatch(deps);
  const known = () => certificates.snapshot.entries.values().map(({ value }) => value);
  const { logAggregator, blobs } = options;
  const own = [
    ...controllerHandlers(deps, {
      logAggregator,
      blobs,
      directory,
      certificates: known,
      hooks: (id) => hooks.snapshot.entries.get(id)?.value,
    }),
    ...healthHandlers(health),
    ...figuresHandlers(deps, watch.history),
    metricsHandler(metrics),
  ];
  clusterMetrics(metrics, deps, health);
  const figures = await Promise.all([
    backupFigures(resources, metrics),
    historyFigures(resources, metrics),
    autoscaleFigures(resources, metrics),
  ]);
  const heard = heardIn({
    [userType.name]: directory.users,
    [teamType.name]: directory.teams,
    [grantType.name]: directory.grants,
    [tokenType.name]: directory.tokens,
    [runnerType.name]: deps.runners,
  });
  const sightings = new Sightings({ oldMs: staleMs, steadyNow: options.steadyNow });
  const tasks = new TaskGroup();
  tasks.run('sightings', (signal) => keepLooking(sightings, { store, prefix: answersRoot, log, signal }));
  const handlers = audited(own, { store, trail, heard, sightings, now, log });
  return {
    handlers: [...handlers, openApiHandler(handlers, { version: deps.settings.version })],
    gate: accessGate({
      deps,
      directory,
      rootKeys,
      clusterKey,
      tokenRounds,
      rateLimit,
      trail,
    }),
    elsewhere: inClear({
      certificates: known,
      httpsPort: deps.settings.httpsPort,
      now,
    }),
    trail,
    health,
    figures: watch,
    async [Symbol.asyncDispose]() {
      await tasks.stop();
      await trail[Symbol.asyncDispose]();
      await directory[Symbol.asyncDispose]();
      await certificates[Symbol.asyncDispose]();
      await hooks[Symbol.asyncDispose]();
      await Promise.all(figures.map((one) => one[Symbol.asyncDispose]()));
    },
  };
}
