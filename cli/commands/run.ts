import { jobs, releases } from '@flynn/controller/api';
import { parseAssignments, parseCpu, parseMemory } from '../arguments.ts';
import { runJoined } from '../joined-job.ts';
import { addCommand, type Parent } from './command.ts';

type RunOptions = { detached?: boolean; release?: string; memory?: string; cpu?: string; env: string[] };

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
      const body = {
        command: args,
        env: { ...(isTerminal && term !== undefined ? { TERM: term } : {}), ...env },
        tty: isTerminal,
        stdin: !options.detached,
        ...limits,
        ...(releaseId === undefined ? {} : { releaseId }),
      };
      const begin = (until?: { signal: AbortSignal }) => client.call(jobs.run, { params: { app }, body }, until);
      if (!options.detached) return runJoined(context, { app, isTerminal, begin });
      const job = await begin();
      context.show(job, () => job.id);
      return 0;
    },
  });
}
