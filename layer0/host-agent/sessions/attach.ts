/** Attaches a client to a job's streams: frames in, frames out. */
import type { Duplex } from 'node:stream';
import { asFlynnError, hasCode } from '@flynn/kit/errors';
import { encodeFrame, readFrames } from '@flynn/kit/frames';
import type { Frame } from '@flynn/kit/frames';
import type { Logger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import type { JobStatus } from '@flynn/scheduler/cell';
import type { ContainerTable } from '../containers/table.ts';
import type { Container, Engine, OutputChunk } from '../engine/engine.ts';
import { outOfMemoryText } from '../jobs/outcome.ts';
import { followLines, linesOf } from '../logs/read.ts';
import type { Session, Sessions } from './session.ts';

export type AttachDeps = {
  engine: Engine;
  containers: ContainerTable;
  sessions: Sessions;
  hostId: string;
  statusOf: (jobId: string) => JobStatus | undefined;
  /** For a job with a terminal: it ends with its client. Without one it is its input that ends. */
  requestStop: (jobId: string) => void;
  log: Logger;
};

export type AttachRequest = {
  jobId: string;
  stdin: boolean;
  logs: boolean;
  size?: { columns: number; rows: number };
};

const appearDeadlineMs = 60_000;
const pingMs = 15_000;
const exitDeadlineMs = 60_000;
/** The engine's limit of a frame leaves room; a terminal client wants output soon rather than in one piece. */
const chunkBytes = 64 * 1024;

export async function attachClient(deps: AttachDeps, request: AttachRequest, socket: Duplex): Promise<void> {
  const leaving = new AbortController();
  socket.once('close', () => leaving.abort());
  socket.on('error', () => leaving.abort());
  const { signal } = leaving;
  // Proxies on the way close what is silent; a shell that waits for a person says nothing for hours.
  const pings = setInterval(() => void (socket.writable && socket.write(encodeFrame({ kind: 'ping' }))), pingMs);
  let writing: Session | undefined;
  try {
    const container = await appearance(deps, request.jobId, signal);
    if (container === undefined) return await sayExit(deps, request.jobId, socket);
    const session = await sessionFor(deps, request, container);
    const isInteractive = session !== undefined && container.tty;
    writing = request.stdin && !container.tty ? session : undefined;
    writing?.enter();
    if (request.size !== undefined && container.tty) await resize(deps, container, request.size);
    void readClient(deps, request, container, session, socket)
      .catch((error: unknown) => deps.log.debug({ err: error, jobId: request.jobId }, 'the client of a job broke off'))
      // The end of stdin is a frame: a connection that ends is a client that is gone.
      .finally(() => leaving.abort());
    const output = session?.read({ withLogs: request.logs, signal }) ?? logOutput(deps, request, signal);
    for await (const chunk of output) await sendOutput(socket, chunk, signal);
    if (signal.aborted) {
      socket.destroy();
      if (isInteractive) stopUnattended(deps, request.jobId, session);
      return;
    }
    await sayExit(deps, request.jobId, socket);
  } catch (error) {
    if (signal.aborted) return;
    const { code, message } = asFlynnError(error);
    socket.end(encodeFrame({ kind: 'error', code, message }));
  } finally {
    clearInterval(pings);
    if (writing?.leave() === true) writing.endInput();
  }
}

/** The started container; undefined if the job is over without one. */
async function appearance(deps: AttachDeps, jobId: string, signal: AbortSignal): Promise<Container | undefined> {
  const found = await waitFor(
    () => {
      const container = deps.containers.ofJob(jobId);
      if (container !== undefined && container.state !== 'created') return { container };
      return deps.statusOf(jobId)?.isFinal === true ? { container: undefined } : undefined;
    },
    { what: `the job ${jobId} to start on this host`, deadlineMs: appearDeadlineMs, intervalMs: 10, signal },
  );
  return found.container;
}

/** Interactive jobs have a session since before their start, unless the agent was restarted meanwhile. */
async function sessionFor(
  { sessions }: AttachDeps,
  request: AttachRequest,
  container: Container,
): Promise<Session | undefined> {
  const known = sessions.get(request.jobId);
  if (known !== undefined || container.state !== 'running') return known;
  if (!request.stdin && !container.tty) return undefined;
  return sessions.open(request.jobId, container.id, { logs: request.logs });
}

async function* logOutput(
  deps: AttachDeps,
  { jobId, logs }: AttachRequest,
  signal: AbortSignal,
): AsyncGenerator<OutputChunk> {
  const isOver = () => deps.containers.ofJob(jobId)?.state === 'exited';
  const container = deps.containers.ofJob(jobId);
  const lines =
    container !== undefined && isOver()
      ? linesOf(deps, container, { signal, ...(logs ? {} : { tail: 0 }) })
      : followLines(deps, jobId, { signal, isOver, ...(logs ? {} : { tail: 0 }) });
  for await (const line of lines) {
    yield { stream: line.stream === 'stderr' ? 'stderr' : 'stdout', data: Buffer.from(`${line.message}\n`) };
  }
}

async function readClient(
  deps: AttachDeps,
  request: AttachRequest,
  container: Container,
  session: Session | undefined,
  socket: Duplex,
): Promise<void> {
  for await (const frame of readFrames(socket)) await takeFrame(frame, deps, request, container, session);
}

async function takeFrame(
  frame: Frame,
  deps: AttachDeps,
  { jobId, stdin }: AttachRequest,
  container: Container,
  session: Session | undefined,
): Promise<void> {
  const mayWrite = stdin && session !== undefined;
  try {
    if (frame.kind === 'stdin' && mayWrite) await session.write(frame.data);
    if (frame.kind === 'stdin-end' && mayWrite) session.endInput();
    if (frame.kind === 'resize' && container.tty) await resize(deps, container, frame);
    if (frame.kind === 'signal') await deps.engine.signal(container.id, frame.signal);
  } catch (error) {
    // The process may end or close its input at any moment; its exit is on its way.
    if (!hasCode(error, 'conflict', 'not_found', 'unavailable')) throw error;
    deps.log.debug({ err: error, jobId }, `a ${frame.kind} frame came too late`);
  }
}

async function resize(
  { engine }: AttachDeps,
  container: Container,
  { columns, rows }: { columns: number; rows: number },
): Promise<void> {
  try {
    await engine.resize(container.id, { columns, rows });
  } catch (error) {
    if (!hasCode(error, 'conflict', 'not_found', 'internal')) throw error;
  }
}

export async function sendOutput(socket: Duplex, { stream, data }: OutputChunk, signal: AbortSignal): Promise<void> {
  for (let at = 0; at < data.length && !signal.aborted; at += chunkBytes) {
    const isFull = !socket.write(encodeFrame({ kind: stream, data: data.subarray(at, at + chunkBytes) }));
    if (isFull) await drained(socket, signal);
  }
}

function drained(socket: Duplex, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const finish = () => {
      socket.off('drain', finish);
      signal.removeEventListener('abort', finish);
      resolve();
    };
    socket.once('drain', finish);
    signal.addEventListener('abort', finish, { once: true });
    if (signal.aborted) finish();
  });
}

/** The streams end a moment before the engine tells of the end. */
async function sayExit({ containers, statusOf }: AttachDeps, jobId: string, socket: Duplex): Promise<void> {
  const end = await waitFor(
    () => {
      const container = containers.ofJob(jobId);
      const status = statusOf(jobId);
      if (container?.state === 'exited') return { code: container.exitCode ?? 0, error: outOfMemoryText(container) };
      return status?.isFinal === true && { code: status.exitCode ?? 1, error: status.error };
    },
    { what: `the exit of ${jobId}`, deadlineMs: exitDeadlineMs, intervalMs: 5 },
  );
  const { code, error } = end;
  socket.end(encodeFrame({ kind: 'exit', code, ...(error === undefined ? {} : { error }) }));
}

/** Nobody will ever type its exit. */
function stopUnattended({ requestStop, log }: AttachDeps, jobId: string, session: Session | undefined): void {
  if (session !== undefined && session.readers > 0) return;
  try {
    log.info({ jobId }, 'the client of an interactive job is gone: stopping it');
    requestStop(jobId);
  } catch (error) {
    // It ended by itself at the same moment.
    if (!hasCode(error, 'conflict', 'not_found')) throw error;
  }
}
