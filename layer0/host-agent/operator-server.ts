/** The part of the agent's API that operators and monitoring use: figures, the agent's own state, other hosts' settings. */
import { systemClock } from '@flynn/kit/clock';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { withDeadline } from '@flynn/kit/retry';
import { cellPrefix } from '@flynn/scheduler/cell';
import type { HostJob, HostRecord, JobStatus } from '@flynn/scheduler/cell';
import type { Store } from '@flynn/store/store';
import { agentMetrics } from './usage/agent-metrics.ts';
import { routes } from './api.ts';
import type { AgentStatus } from './api.ts';
import type { Cleaner } from './disk/cleaner.ts';
import type { ContainerTable } from './containers/table.ts';
import type { HangWatch } from './engine/hang.ts';
import type { Fence } from './fencing/fence.ts';
import type { Figures } from './usage/figures.ts';
import { changeSettings, listHosts, readSettings } from './hosts/settings.ts';
import { metricsText } from '@flynn/kit/metrics';
import type { Metrics } from '@flynn/kit/metrics';
import { metricsAnswer } from '@flynn/kit/metrics-server';
import type { Neighbours } from './hosts/neighbours.ts';

export type OperatorDeps = {
  record: () => HostRecord;
  version: string;
  engineVersion: string;
  store: Store;
  containers: ContainerTable;
  hang: Pick<HangWatch, 'since'>;
  statuses: () => JobStatus[];
  assigned: () => readonly HostJob[];
  fence: Fence;
  neighbours: Neighbours;
  cleaner: Cleaner;
  figures: Figures;
  /** Why it schedules without the schedulers it was configured with, if so. */
  schedulerFault: () => string | undefined;
  /** What is wrong with the host's certificate, if it has one. */
  certificateFault: () => string | undefined;
  /** Lines handed on and dropped since the agent's start. */
  lines: () => { shipped: number; dropped: number };
  /** What is counted besides. */
  metrics: Metrics;
};

/** A person waits for the answer. */
const storeDeadlineMs = 3_000;

export function operatorHandlers(deps: OperatorDeps): Handler[] {
  const { figures, store } = deps;
  return [
    handle(routes.stats, async ({ signal }) => ({ host: await figures.ofHost(), jobs: await figures.ofJobs(signal) })),
    handle(routes.jobStats, async ({ params, signal }) => figures.ofJob(params.job, signal)),
    handle(routes.status, async ({ signal }) => statusOf(deps, signal)),
    handle(routes.metrics, async ({ signal }) => metricsAnswer(await metricsOf(deps, signal))),
    handle(routes.hosts, async ({ signal }) => listHosts(store, { signal: withDeadline(storeDeadlineMs, signal) })),
    handle(routes.changeSettings, async ({ params, body, signal }) => {
      const options = { signal: withDeadline(storeDeadlineMs, signal), now: systemClock.now() };
      return changeSettings(store, params.host, body, options);
    }),
    inspectHandler(deps),
  ];
}

export function inspectHandler(deps: Pick<OperatorDeps, 'statuses' | 'containers' | 'assigned'>): Handler {
  return handle(routes.inspect, async ({ params }) => {
    const status = deps.statuses().find(({ id }) => id === params.job);
    const container = deps.containers.ofJob(params.job);
    if (status === undefined && container === undefined) {
      throw new FlynnError('not_found', `there is no job ${params.job} on this host`);
    }
    const job = deps.assigned().find(({ id }) => id === params.job);
    // What is undefined would be left out of the answer, whose shape says that it is there.
    return { ...(status === undefined ? {} : { status }), job: job ?? null, container: container ?? null };
  });
}

async function statusOf(deps: OperatorDeps, signal: AbortSignal): Promise<AgentStatus> {
  const { containers, hang, fence, neighbours, cleaner } = deps;
  const host = deps.record();
  const { settings, error } = await settingsOf(deps, signal);
  const schedulerFault = deps.schedulerFault();
  const conditions = [
    ...(cleaner.isFull ? ['its disk is full: no new jobs'] : []),
    ...(settings?.drain === undefined ? [] : ['it is being drained']),
    ...(settings?.cordoned === true ? ['it is cordoned'] : []),
    ...(containers.isCurrent ? hangConditions(hang) : ['the container engine does not answer']),
    ...(error === undefined ? [] : [`the store does not answer: ${error}`]),
    ...(schedulerFault === undefined ? [] : [`it schedules without your own schedulers: ${schedulerFault}`]),
    ...[deps.certificateFault()].filter((fault) => fault !== undefined),
    ...(fence.isOpen ? [] : ['its lease is lost: jobs of which there must never be two are stopped']),
  ];
  const { leftMs } = fence;
  return {
    host,
    version: deps.version,
    engine: { isConnected: containers.isCurrent, version: deps.engineVersion },
    store: { isReachable: error === undefined, ...(error === undefined ? {} : { error }) },
    lease: {
      ...(leftMs === undefined ? {} : { leftMs: Math.round(leftMs) }),
      isAlone: neighbours.isAlone,
      fencedJobs: fence.stops,
    },
    jobs: countedJobs(deps.statuses()),
    conditions,
  };
}

export function hangConditions({ since }: Pick<HangWatch, 'since'>): string[] {
  if (since === undefined) return [];
  const moment = new Date(since).toISOString();
  return [`the container engine hangs since ${moment}: it answers and ends nothing; no new jobs`];
}

/** By state. */
export function countedJobs(statuses: readonly JobStatus[]): AgentStatus['jobs'] {
  return Object.fromEntries(
    [...Map.groupBy(statuses, ({ state }) => state)].map(([state, { length }]) => [state, length]),
  );
}

async function settingsOf({ store, record }: OperatorDeps, signal: AbortSignal) {
  const until = withDeadline(storeDeadlineMs, signal);
  try {
    // A write would be refused while there is no quorum, and a read as well: what this tells holds for both.
    await store.get(cellPrefix, { signal: until });
    return { settings: await readSettings(store, record().id, { signal: until }), error: undefined };
  } catch (error) {
    return { settings: undefined, error: messageOf(error) };
  }
}

async function metricsOf(deps: OperatorDeps, signal: AbortSignal): Promise<string> {
  const { figures, fence, containers, hang, cleaner } = deps;
  const lines = deps.lines();
  const own = metricsText(
    agentMetrics({
      host: await figures.ofHost(),
      jobs: await figures.ofJobs(signal),
      statuses: deps.statuses(),
      leaseLeftMs: fence.leftMs,
      fencedJobs: fence.stops,
      isEngineConnected: containers.isCurrent,
      isEngineHung: hang.since !== undefined,
      engineLosses: containers.losses,
      linesShipped: lines.shipped,
      linesDropped: lines.dropped,
      imagesRemoved: cleaner.removed.images,
      isDiskFull: cleaner.isFull,
    }),
  );
  return own + (await deps.metrics.text());
}
