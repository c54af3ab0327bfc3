import { exitCodeText } from '@flynn/kit/exit-codes';
import { jobs, releases } from '@flynn/controller/api';
import type { Job } from '@flynn/controller/model';
import { FlynnError } from '@flynn/kit/errors';
import { autoscaleLines, listAutoscales } from '../apps/autoscale.ts';
import { formatAge, formatTable } from '../output.ts';
import { gatherWaiting } from '../deployments/waiting-jobs.ts';
import { addCommand, type Parent } from './command.ts';

export function addJobCommands(parent: Parent): void {
  addCommand<{ all?: boolean; type?: string; quiet?: boolean }>(parent, {
    name: 'ps',
    onlyTells: true,
    summary: "an app's jobs",
    hasBareA: true,
    options: {
      all: ['--all', 'ended ones too; -a without a name is the same'],
      type: ['-t, --type <type>', 'of one process type'],
      quiet: ['-q, --quiet', 'only their ids'],
    },
    async run(context, options) {
      const client = await context.client();
      const params = { app: await context.appName() };
      const [found, known] = await Promise.all([
        client.call(jobs.list, { params, query: { all: options.all === true || options.isBareA } }),
        client.call(releases.list, { params }),
      ]);
      const versions = new Map(known.map((release) => [release.id, `v${release.version}`]));
      const shown = found
        .filter((job) => options.type === undefined || job.type === options.type)
        .map((job) => Object.assign(job, { release: versions.get(job.releaseId) ?? job.releaseId }));
      if (options.quiet && !context.options.json) {
        context.print(shown.map((job) => `${job.id}\n`).join(''));
        return;
      }
      const scaled = context.options.json ? [] : await listAutoscales(context, params.app);
      const ofType = scaled.filter(({ type }) => options.type === undefined || type === options.type);
      const now = Date.now();
      context.show(shown, () => {
        const table = formatTable(
          ['ID', 'TYPE', 'STATE', 'HOST', 'STARTED', 'RESTARTS', 'RELEASE', 'NOTE'],
          gatherWaiting(shown).map(({ job, count }) => [
            job.id,
            job.type,
            job.state,
            job.hostId,
            formatAge(job.startedAt, now),
            String(job.restarts),
            job.release,
            count === 1 ? noteOf(job, now) : `${count} jobs: ${noteOf(job, now) ?? 'no host has taken them yet'}`,
          ]),
        );
        return `${table}${autoscaleLines(ofType, now)}`;
      });
    },
  });

  addCommand(parent, {
    name: 'kill',
    summary: 'stop jobs; those of a formation are started again',
    arguments: [['<job...>', 'ids, as "flynn ps" shows them']],
    async run(context, _options, ids) {
      const client = await context.client();
      const app = await context.appName();
      const stopped: string[] = [];
      const hadEnded: string[] = [];
      const waiting: string[] = [];
      for (const id of ids) {
        const job = await client.call(jobs.get, { params: { app, job: id } });
        const now = Date.now();
        if (isOver(job)) {
          hadEnded.push(id);
          if (!context.options.json) context.print(overText(id, job, now));
          continue;
        }
        const nextStart = nextStartOf(job, now);
        if (nextStart !== undefined) {
          const why = `${id} does not run now (${endOf(job) ?? job.state}) and ${nextStart}`;
          waiting.push(`${why}: scale ${job.type} down instead`);
          continue;
        }
        await context.progress(`stopping ${id}`, () =>
          client.call(jobs.stop, { params: { app, job: id } }, { timeoutMs: 60_000 }),
        );
        stopped.push(id);
        if (!context.options.json) context.print(`${id} stopped`);
      }
      const told = hadEnded.length === 0 ? { stopped } : { stopped, hadEnded };
      if (context.options.json) context.print(JSON.stringify(told, undefined, 2));
      // The others were to be stopped all the same.
      if (waiting.length > 0) throw new FlynnError('conflict', waiting.join('\n'));
    },
  });
}

const ends: ReadonlySet<Job['state']> = new Set(['done', 'crashed', 'failed', 'lost']);

/** For good: what its host starts again has a moment at which it does. */
function isOver({ state, nextStartAt }: Job): boolean {
  return ends.has(state) && nextStartAt === undefined;
}

function overText(id: string, job: Job, nowMs: number): string {
  const how = endOf(job);
  const when = job.endedAt === undefined ? '' : ` ${formatAge(job.endedAt, nowMs)} ago`;
  return `${id} had ended before${when}: it is ${job.state}${how === undefined ? '' : ` (${how})`}; "flynn ps" lists what runs`;
}

function noteOf(job: Job, nowMs: number): string | undefined {
  const notes = [endOf(job), nextStartOf(job, nowMs)].filter((note) => note !== undefined);
  return notes.length === 0 ? undefined : notes.join('; ');
}

function endOf({ error, exitCode, lastError }: Job): string | undefined {
  if (error !== undefined) return error;
  if (exitCode !== undefined) return exitCodeText(exitCode);
  return lastError === undefined ? undefined : `before: ${lastError}`;
}

function nextStartOf({ nextStartAt }: Job, nowMs: number): string | undefined {
  const leftMs = nextStartAt === undefined ? 0 : Date.parse(nextStartAt) - nowMs;
  return leftMs <= 0 ? undefined : `starts again in ${Math.ceil(leftMs / 1_000)} s`;
}
