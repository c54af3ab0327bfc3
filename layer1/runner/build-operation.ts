/** Runs the slug builder as a job, its output as the operation's log. */
import type { Duplex } from 'node:stream';
import { apps, jobs } from '@flynn/controller/api';
import { registrySettingsOf } from '@flynn/controller/runner-env/settings';
import { lossText } from '@flynn/controller/operations/losses';
import type { Job, Operation } from '@flynn/controller/model';
import { FlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import { readFrames } from '@flynn/kit/frames';
import { LineSplitter } from '@flynn/kit/lines';
import { withDeadline } from '@flynn/kit/retry';
import { systemClock } from '@flynn/kit/clock';
import type { Execution } from './execution.ts';
import { patiently } from './execution.ts';
import { executeImport } from './import-operation.ts';
import { accessTo } from './registry/access.ts';
import { parseReference } from './registry/reference.ts';
import { sourceKindOf } from './source-kind.ts';

const maxLineBytes = 8 * 1024;

type JobParams = { app: string; job: string };
type Exit = { code: number | undefined; error: string | undefined };

/** Output `resultDigest`: the blob that says what was built. */
export async function executeBuild(execution: Execution): Promise<Record<string, string>> {
  const { operation, controller, blobs } = execution;
  const { sourceDigest, commit = '', imageRef, folder, dockerfile } = operation.input;
  const { losses = [], handover } = operation;
  if (imageRef !== undefined) {
    const { registry } = parseReference(imageRef);
    const { FLYNN_REGISTRY_LOGINS: logins, FLYNN_PLAIN_REGISTRIES: plain } = registrySettingsOf(await execution.env());
    const own = { ...execution.ownRegistries, logins: await execution.ownLogins() };
    return executeImport(execution, imageRef, accessTo(registry, { logins, plain }, own));
  }
  if (sourceDigest === undefined) throw new FlynnError('invalid', 'the push has no source: push again');
  const app = await patiently('reading the app', execution, (signal) =>
    controller.call(apps.get, { params: { app: operation.appId } }, { signal }),
  );
  // Its job runs on, and its output is told from where the runner before was.
  if (handover?.told === undefined) {
    await execution.write(...beginningAgain(operation));
    await execution.write(`-----> Building ${app.name}${folder === undefined ? '' : ` from ${folder}`}...`);
  }
  const look = (signal: AbortSignal) => sourceKindOf(() => blobs.get(sourceDigest, { signal }), signal);
  const kind = dockerfile === undefined ? await patiently('reading the source', execution, look) : 'dockerfile';
  const body = {
    operationId: operation.id,
    sourceDigest,
    commit,
    kind,
    ...(dockerfile === undefined ? {} : { dockerfile }),
    ...(losses.length === 0 ? {} : { losses: losses.length }),
  };
  const job = await patiently('starting the build', execution, (signal) =>
    controller.call(jobs.build, { params: { app: operation.appId }, body }, { signal }),
  );
  const told = { ...(handover?.told ?? { stdout: 0, stderr: 0 }) };
  execution.handover.told = told;
  let exit: Exit;
  try {
    exit = await followJob(job, execution, told);
  } catch (error) {
    // Nobody would take its result any more.
    if (!execution.isGivenBack()) await stopJob(job, execution);
    throw error;
  }
  if (exit.code !== 0) throw failureOf(await explain(exit, job, execution));
  const name = `builds/${operation.id}`;
  const result = await patiently('finding the result', execution, (signal) => blobs.getName(name, { signal }));
  if (result === undefined) throw new FlynnError('internal', 'the build ended well but left no result: push again');
  return { resultDigest: result.digest };
}

/** For whoever pushed, who may have seen half a build by now. */
function beginningAgain({ losses = [], handover }: Operation): string[] {
  const last = losses.at(-1);
  if (last === undefined || handover !== undefined) return [];
  const text = lossText(last);
  const tries = `${losses.length === 1 ? '2nd' : '3rd'} try of 3 at most`;
  const where = last.hostId === undefined ? '' : ' on another';
  return ['', ` !     ${text.slice(0, 1).toUpperCase()}${text.slice(1)}: beginning again${where} (${tries})`];
}

function failureOf({ code, error }: Exit): FlynnError {
  const ended = code === undefined ? '' : ` (exit code ${code})`;
  return new FlynnError('invalid', `the build failed${error === undefined ? ended : `: ${error}`}`);
}

/** What the controller knows of the job's end says more than its last frame: the memory limit it went over. */
async function explain(exit: Exit, job: Job, execution: Execution): Promise<Exit> {
  try {
    const { error } = await findJob({ app: job.appId, job: job.workloadId }, execution);
    return { code: exit.code, error: error ?? exit.error };
  } catch (error) {
    if (execution.signal.aborted) throw error;
    // That it failed is certain; only the details are missing.
    return exit;
  }
}

/**
 * Copies the job's output to the log until it ends. Attaches again when the connection breaks, skipping what it has: `seen`, which
 * it keeps.
 */
export async function followJob(job: Job, execution: Execution, seen = { stdout: 0, stderr: 0 }): Promise<Exit> {
  const { signal } = execution;
  let isLastLook = false;
  for (let failures = 0; ;) {
    signal.throwIfAborted();
    let because: unknown;
    try {
      const before = seen.stdout + seen.stderr;
      const exit = await copyOutput(job, execution, seen);
      if (exit !== undefined) return exit;
      if (seen.stdout + seen.stderr > before) failures = 0;
    } catch (error) {
      if (signal.aborted || hasCode(error, 'invalid', 'denied', 'unauthenticated')) throw error;
      because = error;
    }
    const ended = await endOf(job, execution);
    if (ended !== undefined && isLastLook) return ended;
    // What it said between the break and its end is still there to be read.
    isLastLook = ended !== undefined;
    if (isLastLook) continue;
    failures += 1;
    // Of a host that is lost with others the scheduler says so after a minute.
    if (failures > 40) {
      throw new FlynnError(
        'unavailable',
        `the build cannot be followed any more: ${messageOf(because ?? 'its output ends at once')}`,
      );
    }
    await systemClock.sleep(Math.min(3_000, 100 * 2 ** failures), { signal });
  }
}

/** Undefined if the stream ended without telling the job's end. */
async function copyOutput(
  job: Job,
  execution: Execution,
  seen: { stdout: number; stderr: number },
): Promise<Exit | undefined> {
  const { controller, signal, write } = execution;
  const params = { app: job.appId, job: job.workloadId };
  // Until the job has a place there is nothing to attach to.
  const socket = await controller.upgrade(
    jobs.attach,
    { params, query: { logs: true } },
    { signal, timeoutMs: 90_000 },
  );
  const stop = (): void => void socket.destroy(new FlynnError('cancelled', 'the operation was cancelled'));
  signal.addEventListener('abort', stop, { once: true });
  const ended = new AbortController();
  let frames = 0;
  const watching = endSilentConnection(socket, () => frames, params, {
    ...execution,
    signal: AbortSignal.any([signal, ended.signal]),
  });
  try {
    const streams = {
      stdout: { splitter: new LineSplitter({ maxBytes: maxLineBytes }), skip: seen.stdout },
      stderr: { splitter: new LineSplitter({ maxBytes: maxLineBytes }), skip: seen.stderr },
    };
    const add = async (kind: 'stdout' | 'stderr', lines: string[]): Promise<void> => {
      const stream = streams[kind];
      const fresh = lines.slice(stream.skip);
      stream.skip = Math.max(0, stream.skip - lines.length);
      seen[kind] += fresh.length;
      if (fresh.length > 0) await write(...fresh);
    };
    for await (const frame of readFrames(socket)) {
      frames += 1;
      if (frame.kind === 'stdout' || frame.kind === 'stderr')
        await add(frame.kind, streams[frame.kind].splitter.push(frame.data));
      else if (frame.kind === 'error') throw new FlynnError(frame.code, frame.message);
      else if (frame.kind === 'exit') {
        await add('stdout', streams.stdout.splitter.flush());
        await add('stderr', streams.stderr.splitter.flush());
        return { code: frame.code, error: frame.error };
      }
    }
    return undefined;
  } finally {
    signal.removeEventListener('abort', stop);
    socket.destroy();
    ended.abort();
    await watching;
  }
}

/**
 * A connection whose other end vanished without a word never ends by itself; the job behind it does. Destroys the
 * connection when nothing came over it between two looks at an ended job.
 */
async function endSilentConnection(
  socket: Duplex,
  framesSoFar: () => number,
  params: JobParams,
  execution: Execution,
): Promise<void> {
  const { controller, signal, lookMs } = execution;
  let framesAtEnd: number | undefined;
  const look = async (): Promise<void> => {
    await systemClock.sleep(lookMs, { signal });
    const { endedAt, state } = await controller.call(jobs.get, { params }, { signal });
    // Of one that went with its host nobody says when it ended.
    if (endedAt === undefined && state !== 'lost') return;
    if (framesAtEnd === framesSoFar()) socket.destroy();
    framesAtEnd = framesSoFar();
  };
  while (!signal.aborted) {
    try {
      await look();
    } catch {
      // Cancelled, or not to be seen right now: the next look says more.
    }
  }
}

/** How the job ended, as the controller knows it; undefined while it has not. */
async function endOf(job: Job, execution: Execution): Promise<Exit | undefined> {
  const params = { app: job.appId, job: job.workloadId };
  const { state, exitCode, error } = await findJob(params, execution);
  switch (state) {
    case 'lost':
      throw new FlynnError('unavailable', 'the host that the build ran on was lost: push again');
    case 'done':
      return { code: 0, error: undefined };
    case 'crashed':
    case 'failed':
      return { code: exitCode === 0 ? undefined : exitCode, error };
    case 'pending':
    case 'starting':
    case 'running':
    case 'stopping':
      return undefined;
    default:
      return state satisfies never;
  }
}

async function findJob(params: JobParams, execution: Execution): Promise<Job> {
  try {
    return await patiently('looking at the build', execution, (signal) =>
      execution.controller.call(jobs.get, { params }, { signal }),
    );
  } catch (error) {
    if (!hasCode(error, 'not_found')) throw error;
    const why = 'somebody stopped it, or the host that it was to run on was lost before it began';
    throw new FlynnError('invalid', `the build is gone: ${why}. Push again`, { cause: error });
  }
}

/** A runner that is being stopped has little time left, and has to report too. */
const stopMs = { runnerStops: 1_500, otherwise: 10_000 };

async function stopJob(job: Job, { controller, signal }: Execution): Promise<void> {
  const params = { app: job.appId, job: job.workloadId };
  const deadlineMs = hasCode(signal.reason, 'unavailable') ? stopMs.runnerStops : stopMs.otherwise;
  try {
    await patiently('stopping the build', { signal: withDeadline(deadlineMs) }, (signal) =>
      controller.call(jobs.stop, { params }, { signal }),
    );
  } catch (error) {
    // Gone already is as good; one that cannot be stopped ends by itself, and nobody takes its result.
    if (!hasCode(error, 'not_found', 'timeout', 'unavailable')) throw error;
  }
}
