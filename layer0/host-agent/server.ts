/** The host agent's HTTP API. */
import { Readable } from 'node:stream';
import { FlynnError } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import type { Logger } from '@flynn/kit/log';
import type { HostRecord, JobStatus } from '@flynn/scheduler/cell';
import { routes } from './api.ts';
import type { LogLine } from './api.ts';
import { attachClient } from './sessions/attach.ts';
import type { ContainerTable } from './containers/table.ts';
import type { Container, Engine } from './engine/engine.ts';
import { joinProcess } from './sessions/exec.ts';
import { followLines, linesOf } from './logs/read.ts';
import type { Sessions } from './sessions/session.ts';

export type ApiDeps = {
  engine: Engine;
  containers: ContainerTable;
  sessions: Sessions;
  record: HostRecord;
  version: string;
  statuses: () => JobStatus[];
  statusOf: (jobId: string) => JobStatus | undefined;
  requestStop: (jobId: string) => void;
  notesOf: (jobId: string) => readonly LogLine[];
  log: Logger;
};

/** What is told of jobs, and changes nothing. */
export type ReadingDeps = Pick<ApiDeps, 'engine' | 'containers' | 'statuses' | 'statusOf' | 'notesOf'> & {
  record: Pick<HostRecord, 'id'>;
};

/** Kept for looking at, as the guarantee goes. */
const listedEndedJobs = 25;

export function readingHandlers(deps: ReadingDeps): Handler[] {
  const { containers } = deps;
  return [
    handle(routes.jobs, async ({ query }) => listed(deps.statuses(), query.active === true)),
    handle(routes.job, async ({ params }) => known(deps.statusOf(params.job), params.job)),
    handle(routes.log, async ({ params, query, signal }) => {
      known(deps.statusOf(params.job) ?? containers.ofJob(params.job), params.job);
      return { body: Readable.from(ndjson(jobLog(deps, params.job, query, signal)), { objectMode: false }) };
    }),
  ];
}

export function agentHandlers(deps: ApiDeps): Handler[] {
  const { engine, containers, record } = deps;
  return [
    handle(routes.host, async () => ({
      ...record,
      jobs: deps.statuses().filter(isActive).length,
      version: deps.version,
    })),
    ...readingHandlers(deps),
    handle(routes.attach, async ({ params, query }) => {
      const { columns, rows } = query;
      const size = columns === undefined || rows === undefined ? {} : { size: { columns, rows } };
      const request = { jobId: params.job, stdin: query.stdin === true, logs: query.logs === true, ...size };
      return (socket) => void attachClient({ ...deps, hostId: record.id }, request, socket);
    }),
    handle(routes.exec, async ({ params, query, signal }) => {
      const { command, tty = false, term, columns, rows } = query;
      const container = runningContainer(containers, params.job);
      const env: Record<string, string> = term === undefined ? {} : { TERM: term };
      const beside = await engine.exec(container.id, { command, env, tty, stdin: true, signal });
      const size = columns === undefined || rows === undefined ? undefined : { columns, rows };
      return (socket) => void joinProcess({ beside, tty, size, log: deps.log }, socket);
    }),
    handle(routes.signal, async ({ params, body }) => {
      const container = runningContainer(containers, params.job);
      await engine.signal(container.id, body.signal);
    }),
    handle(routes.image, async ({ query, signal }) => ({
      body: await engine.exportImages([query.name].flat(), { signal }),
    })),
    handle(routes.stop, async ({ params }) => deps.requestStop(params.job)),
  ];
}

async function* jobLog(
  { engine, containers, record, statusOf, notesOf }: ReadingDeps,
  jobId: string,
  query: { follow?: boolean | undefined; lines?: number | undefined },
  signal: AbortSignal,
): AsyncGenerator<LogLine> {
  const tail = query.lines === undefined ? {} : { tail: query.lines };
  const source = { engine, containers, hostId: record.id };
  const container = containers.ofJob(jobId);
  if (query.follow === true) {
    const isOver = () => statusOf(jobId)?.isFinal ?? containers.ofJob(jobId)?.state !== 'running';
    yield* followLines(source, jobId, { ...tail, signal, isOver });
  } else if (container !== undefined) yield* linesOf(source, container, { ...tail, signal });
  yield* notesOf(jobId);
}

async function* ndjson(lines: AsyncIterable<LogLine>): AsyncGenerator<string> {
  for await (const line of lines) yield `${JSON.stringify(line)}\n`;
}

function isActive(status: JobStatus): boolean {
  return !status.isFinal;
}

function listed(statuses: readonly JobStatus[], onlyActive: boolean): JobStatus[] {
  const active = statuses.filter(isActive).sort((a, b) => a.createdAt - b.createdAt);
  if (onlyActive) return active;
  const ended = statuses.filter((status) => !isActive(status)).sort((a, b) => (b.endedAt ?? 0) - (a.endedAt ?? 0));
  return [...active, ...ended.slice(0, listedEndedJobs)];
}

function known<T>(found: T | undefined, jobId: string): T {
  if (found === undefined) throw new FlynnError('not_found', `there is no job ${jobId} on this host`);
  return found;
}

function runningContainer(containers: ContainerTable, jobId: string): Container {
  const container = known(containers.ofJob(jobId), jobId);
  if (container.state !== 'running') throw new FlynnError('conflict', `the job ${jobId} is not running`);
  return container;
}
