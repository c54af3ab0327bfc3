import type { Duplex } from 'node:stream';
import { jobs, releases } from '@flynn/controller/api';
import type { Job } from '@flynn/controller/model';
import { hasCode } from '@flynn/kit/errors';
import { parseAssignments, parseCpu, parseMemory } from '../arguments.ts';
import type { Context } from '../context.ts';
import { sizeOf } from '../output.ts';
import { joinJob } from '../terminal.ts';
import { addCommand, type Parent } from './command.ts';

type RunOptions = { detached?: boolean; release?: string; memory?: string; cpu?: string; env: string[] };

const attachMs = 90_000;

export function addRunCommand(parent: Parent): void {
  addCommand<RunOptions>(parent, {
    name: 'run',
    summary: "run a command in a release's image and env; its exit code is this command's",
    arguments: [['<command...>', 'the command and what it takes']],
    passesThrough: true,
    options: {
      detached: ['-d, --detached', 'do not wait; the output is in the log'],
      release: ['-r, --release <release>', 'vN or an id; else the live one'],
      memory: ['--memory <size>', 'what it may take, as 4GB; else as "flynn limit" has it'],
      cpu: ['--cpu <thousandths>', 'of a processor, as 2000; else as "flynn limit" has it'],
      env: ['-e, --env <assignment>', 'NAME=VALUE for this run; may be repeated', []],
    },
    async run(context, options, args) {
      const { io } = context;
      const env = parseAssignments(options.env);
      const { memory, cpu } = options;
      const limits = {
        ...(memory === undefined ? {} : { memoryBytes: parseMemory(memory) }),
        ...(cpu === undefined ? {} : { cpuMillis: parseCpu(cpu) }),
      };
      const client = await context.client();
      const app = await context.appName();
      const isTerminal = !options.detached && io.stdin.isTTY === true && io.stdout.isTTY === true;
      const term = io.env['TERM'];
      const releaseId =
        options.release === undefined
          ? undefined
          : (await client.call(releases.get, { params: { app, release: options.release } })).id;
      const job = await client.call(jobs.run, {
        params: { app },
        body: {
          command: args,
          env: { ...(isTerminal && term !== undefined ? { TERM: term } : {}), ...env },
          tty: isTerminal,
          stdin: !options.detached,
          ...limits,
          ...(releaseId === undefined ? {} : { releaseId }),
        },
      });
      if (options.detached) {
        context.show(job, () => job.id);
        return 0;
      }
      return joinJob(io, await attach(context, { app, job, isTerminal }), { isTerminal });
    },
  });
}

/** A job nobody could be joined to, or whose start was interrupted, is stopped rather than left behind. */
export async function attach(
  context: Context,
  { app, job, isTerminal }: { app: string; job: Job; isTerminal: boolean },
): Promise<Duplex> {
  const client = await context.client();
  const params = { app, job: job.id };
  const query = { stdin: true, logs: true, ...(isTerminal ? sizeOf(context.io.stdout) : {}) };
  const interruption = new AbortController();
  const { signal } = interruption;
  const offSignal = context.io.onSignal('SIGINT', () => interruption.abort());
  try {
    return await context.progress('starting', () =>
      client.upgrade(jobs.attach, { params, query }, { signal, timeoutMs: attachMs }),
    );
  } catch (error) {
    try {
      await client.call(jobs.stop, { params });
    } catch (again) {
      // What kept us from joining it tells more than what keeps us from stopping it.
      if (!hasCode(again, 'not_found', 'conflict', 'unavailable', 'timeout')) throw again;
    }
    throw error;
  } finally {
    offSignal();
  }
}
