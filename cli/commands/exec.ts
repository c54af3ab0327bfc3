import { jobs } from '@flynn/controller/api';
import { sizeOf } from '../output.ts';
import { joinJob } from '../terminal.ts';
import { addCommand, type Parent } from './command.ts';

type ExecOptions = { type?: string; job?: string };

const attachMs = 90_000;

export function addExecCommand(parent: Parent): void {
  addCommand<ExecOptions>(parent, {
    name: 'exec',
    summary: "run a command beside a running job, in its container; its exit code is this command's",
    arguments: [['<command...>', 'the command and what it takes']],
    passesThrough: true,
    options: {
      type: ['-t, --type <type>', 'a job of this process type'],
      job: ['-j, --job <job>', 'this job; else the one on the host with the most room'],
    },
    async run(context, { type, job }, command) {
      const { io } = context;
      const client = await context.client();
      const app = await context.appName();
      const isTerminal = io.stdin.isTTY === true && io.stdout.isTTY === true;
      const term = io.env['TERM'];
      const query = {
        command: JSON.stringify(command),
        tty: isTerminal,
        ...(isTerminal ? { ...sizeOf(io.stdout), term } : {}),
        type,
        job,
      };
      const socket = await context.progress('starting', () =>
        client.upgrade(jobs.exec, { params: { app }, query }, { timeoutMs: attachMs }),
      );
      return joinJob(io, socket, { isTerminal });
    },
  });
}
