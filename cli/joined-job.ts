/** A job that is begun for a command, and joined to its terminal or pipes. */
import type { Duplex } from 'node:stream';
import { jobs } from '@flynn/controller/api';
import type { Job } from '@flynn/controller/model';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import type { Context } from './context.ts';
import { sizeOf } from './output.ts';
import { joinJob } from './terminal.ts';

const attachMs = 90_000;

type Wanted = Readonly<{
  app: string;
  isTerminal: boolean;
  /** Asks for it. */
  begin: (limits: { signal: AbortSignal }) => Promise<Job>;
}>;

/** Answers its exit code. */
export async function runJoined(context: Context, wanted: Wanted): Promise<number> {
  return joinJob(context.io, await open(context, wanted), wanted);
}

/** A job nobody could be joined to, or whose start was interrupted, is stopped rather than left behind. */
async function open(context: Context, { app, isTerminal, begin }: Wanted): Promise<Duplex> {
  const client = await context.client();
  const query = { stdin: true, logs: true, ...(isTerminal ? sizeOf(context.io.stdout) : {}) };
  const [stopping, leaving] = [new AbortController(), new AbortController()];
  let job: Job | undefined;
  const interrupt = (): void => {
    if (stopping.signal.aborted) leaving.abort(unknownEnd(app));
    else if (job === undefined)
      context.tell('flynn: stopping it once the cluster has said that it began; Ctrl-C again waits no longer');
    stopping.abort(new FlynnError('cancelled', 'stopped: it does not run'));
  };
  const offs = (['SIGINT', 'SIGTERM'] as const).map((signal) => context.io.onSignal(signal, interrupt));
  try {
    return await context.progress('starting', async () => {
      // Not given up at the first signal: that there is a job to be stopped only the answer tells.
      job = await begin({ signal: leaving.signal });
      const params = { app, job: job.id };
      return client.upgrade(jobs.attach, { params, query }, { signal: stopping.signal, timeoutMs: attachMs });
    });
  } catch (error) {
    const isLeft = job !== undefined && !(await hasStopped(context, { app, job: job.id }, leaving.signal));
    throw isLeft && stopping.signal.aborted ? stillThere(app, job?.id ?? '') : error;
  } finally {
    for (const off of offs) off();
  }
}

/** What keeps it from being stopped is not told: what kept us from joining it tells more. */
async function hasStopped(
  context: Context,
  params: { app: string; job: string },
  signal: AbortSignal,
): Promise<boolean> {
  const client = await context.client();
  try {
    await client.call(jobs.stop, { params }, { signal });
  } catch (error) {
    if (hasCode(error, 'unavailable', 'timeout', 'cancelled')) return false;
    // It has ended by itself.
    if (!hasCode(error, 'not_found', 'conflict')) throw error;
  }
  return true;
}

function stillThere(app: string, job: string): FlynnError {
  const next = `"flynn kill -a ${app} ${job}" does, "flynn ps -a ${app}" tells whether it runs`;
  return new FlynnError('cancelled', `the cluster has not said that ${job} was stopped\n  ${next}`);
}

function unknownEnd(app: string): FlynnError {
  const next = `"flynn ps -a ${app}" lists it if it did, "flynn kill" stops it`;
  return new FlynnError('cancelled', `nobody knows whether it began\n  ${next}`);
}
