/**
 * The agent's API while there is no store yet, or the engine hangs, which may be for hours: how the host is and what runs,
 * for root on this machine. Everything else is `unavailable`, and for other machines the agent is not there yet.
 */
import { FlynnError } from '@flynn/kit/errors';
import type { Gate } from '@flynn/kit/http-gate';
import { handle, startServer } from '@flynn/kit/http-server';
import { withDeadline } from '@flynn/kit/retry';
import type { HostRecord, JobStatus } from '@flynn/scheduler/cell';
import { routes } from './api.ts';
import { doctorHandlers, storeError } from './doctor/start.ts';
import type { DoctorDeps } from './doctor/start.ts';
import type { Container, Engine } from './engine/engine.ts';
import { countedJobs, hangConditions, inspectHandler } from './operator-server.ts';
import { jobIdOf } from './jobs/plan.ts';
import { recordOfContainer } from './jobs/record.ts';
import type { HostBridge } from './network/host-bridge.ts';
import type { Rivals } from './fencing/rivals.ts';
import { readingHandlers } from './server.ts';

const address = '127.0.0.1';
/** A person waits for the answer. */
const storeDeadlineMs = 1_000;

export type EarlyDeps = Omit<DoctorDeps, 'work' | 'schedulerFault' | 'rememberedHosts'> & {
  rivals: Pick<Rivals, 'known' | 'waitsFor'>;
  bridge: Pick<HostBridge, 'isThere'>;
  engine: Engine;
  record: HostRecord;
  port: number;
  gate: Gate;
  signal: AbortSignal;
};

/** Whose port is free for another server as soon as `close` returns. What is under way there has its few seconds to end. */
export type EarlyServer = Readonly<{ port: number; close: () => void }>;

export async function serveEarly(deps: EarlyDeps): Promise<EarlyServer> {
  const { engine, containers, hang, bridge, store, record, rivals, version, log, gate, port } = deps;
  const statuses = () => containers.assigned().map((container) => statusOf(container, record.id));
  const closing = new AbortController();
  const knows = 'since it was started, and knows only what runs';
  const waiting = (error: string | undefined): string => {
    if (!bridge.isThere) return `its agent waits for the container engine to tell of its network ${knows}`;
    if (error !== undefined) return `its agent waits for the store ${knows}: ${error}`;
    return 'its agent is starting';
  };
  const server = await startServer({
    name: 'host-agent',
    host: address,
    port,
    gate,
    log,
    signal: AbortSignal.any([deps.signal, closing.signal]),
    otherwise: () =>
      new FlynnError(
        'unavailable',
        rivals.waitsFor() ??
          (bridge.isThere
            ? 'this host waits for the store (etcd): "flynn-host doctor" tells why it is away'
            : 'this host waits for its container engine: "flynn-host doctor" tells what is wrong with it'),
      ),
    handlers: [
      handle(routes.status, async ({ signal }) => {
        const error = await storeError(store, withDeadline(storeDeadlineMs, signal));
        return {
          host: record,
          version,
          engine: { isConnected: containers.isCurrent, version: deps.engineVersion },
          store: { isReachable: error === undefined, ...(error === undefined ? {} : { error }) },
          lease: { isAlone: false, fencedJobs: 0 },
          jobs: countedJobs(statuses()),
          conditions: [rivals.waitsFor() ?? waiting(error), ...hangConditions(hang)],
        };
      }),
      ...readingHandlers({
        engine,
        containers,
        record,
        statuses,
        statusOf: (jobId) => statuses().find(({ id }) => id === jobId),
        notesOf: () => [],
      }),
      inspectHandler({ statuses, containers, assigned: () => [] }),
      ...doctorHandlers({
        ...deps,
        work: undefined,
        schedulerFault: () => undefined,
        rememberedHosts: () => [record],
      }),
    ],
  });
  return { port: server.port, close: () => closing.abort() };
}

/** As far as a container alone tells: whether it is to be started again is not known before the store is there. */
function statusOf(container: Container, hostId: string): JobStatus {
  const { status } = recordOfContainer(container, hostId);
  const { state, exitCode, startedAtMs, endedAtMs, address: at } = container;
  return {
    ...status,
    id: jobIdOf(container),
    state: state === 'exited' ? (exitCode === 0 ? 'done' : 'crashed') : state === 'running' ? 'running' : 'starting',
    isFinal: state === 'exited',
    ...(at === undefined ? {} : { address: at }),
    ...(startedAtMs === undefined ? {} : { startedAt: startedAtMs }),
    ...(state === 'exited' && endedAtMs !== undefined ? { endedAt: endedAtMs } : {}),
    ...(state === 'exited' && exitCode !== undefined ? { exitCode } : {}),
  };
}
