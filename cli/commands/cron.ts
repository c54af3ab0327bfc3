import { crons } from '@flynn/controller/cron/api';
import type { Cron, CronRun } from '@flynn/controller/cron/model';
import { FlynnError } from '@flynn/kit/errors';
import type { Context } from '../context.ts';
import { formatAge, formatTable } from '../output.ts';
import { addCommand, type Parent } from './command.ts';

export function addCronCommands(parent: Parent): void {
  const cron = addCommand(parent, {
    name: 'cron',
    summary: "what an app's app.json wants run on a schedule",
    run: listCrons,
  });
  addCommand(parent, { under: cron, name: 'list', summary: 'the same', run: listCrons });
  addCommand(parent, {
    under: cron,
    name: 'runs',
    summary: 'the last runs of a line, and their jobs: "flynn log -j JOB" has what one said',
    arguments: [['<id>', 'as the list tells it, or its beginning']],
    async run(context, _options, [id = '']) {
      const { runs } = await findCron(context, id);
      context.show(runs, () =>
        formatTable(
          ['TICK', 'STATE', 'STARTED', 'TOOK', 'JOB', 'NOTE'],
          runs.map((run) => [
            run.tick ?? 'by hand',
            run.state,
            formatAge(run.startedAt, Date.now()),
            tookText(run),
            run.jobId ?? run.workloadId,
            noteText(run),
          ]),
        ),
      );
    },
  });
  const acts = [
    ['run', 'run a line now, whatever its schedule', ({ runs }: Cron) => `started ${runs[0]?.workloadId ?? ''}`],
    ['pause', 'let the ticks of a line pass', ({ id }: Cron) => `${id} is paused`],
    ['resume', 'run a line at its ticks again', ({ id, nextAt }: Cron) => `${id} runs next at ${nextAt ?? '-'}`],
  ] as const;
  for (const [name, summary, text] of acts) {
    addCommand(parent, {
      under: cron,
      name,
      summary,
      arguments: [['<id>', 'as the list tells it, or its beginning']],
      async run(context, _options, [id = '']) {
        const client = await context.client();
        const params = { app: await context.appName(), cron: id };
        const changed = await client.call(crons[name], { params });
        context.show(changed, () => text(changed));
      },
    });
  }
}

async function listCrons(context: Context): Promise<void> {
  const client = await context.client();
  const found = await client.call(crons.list, { params: { app: await context.appName() } });
  context.show(found, () =>
    formatTable(
      ['ID', 'SCHEDULE', 'ZONE', 'NEXT', 'LAST', 'AGE', 'COMMAND'],
      found.map((one) => [
        one.id,
        one.schedule,
        one.timezone ?? 'UTC',
        one.isPaused ? 'paused' : one.nextAt,
        one.runs[0]?.state,
        formatAge(one.runs[0]?.startedAt, Date.now()),
        one.command,
      ]),
    ),
  );
}

async function findCron(context: Context, id: string): Promise<Cron> {
  const client = await context.client();
  const app = await context.appName();
  const found = (await client.call(crons.list, { params: { app } })).filter((one) => one.id.startsWith(id));
  const [one] = found;
  if (one !== undefined && found.length === 1) return one;
  throw new FlynnError('not_found', `"${id}" is ${found.length} lines of cron of ${app}\n  "flynn cron" lists them`);
}

function noteText({ error, skips }: CronRun): string | undefined {
  return skips === undefined ? error : `${error ?? 'skipped'}: ${skips} ticks, of which this was the last`;
}

function tookText({ startedAt, endedAt }: CronRun): string | undefined {
  return endedAt === undefined ? undefined : formatAge(startedAt, Date.parse(endedAt));
}
