import { apps, formations, jobs, releases } from '@flynn/controller/api';
import type { App, Release } from '@flynn/controller/model';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { withDeadline } from '@flynn/kit/retry';
import { parseCounts, parseWhole } from '../arguments.ts';
import type { Context } from '../context.ts';
import { isReached, type JobChange, JobWatch, type Wanted } from '../job-watch.ts';
import { type Colour, formatSeconds, formatTable, paint } from '../output.ts';
import { addCommand, type Parent } from './command.ts';

type ScaleOptions = { wait: boolean; release?: string; timeout: string };

export function addScaleCommand(parent: Parent): void {
  addCommand<ScaleOptions>(parent, {
    name: 'scale',
    summary: 'how many jobs of each process type; without arguments: how many there are to be',
    arguments: [['[counts...]', 'TYPE=COUNT, as in web=3']],
    options: {
      wait: ['-n, --no-wait', 'do not wait until it is so'],
      release: ['-r, --release <release>', 'vN or an id; else the live one'],
      timeout: ['--timeout <seconds>', 'how long to wait', '120'],
    },
    async run(context, options, args) {
      const wanted = parseCounts(args);
      const waitMs = 1_000 * parseWhole(options.timeout, { what: 'a number of seconds', min: 1, max: 86_400 });
      const client = await context.client();
      const app = await client.call(apps.get, { params: { app: await context.appName() } });
      const release = await releaseOf(context, app, options.release);
      if (args.length === 0) return showCounts(context, app, release);
      if (options.wait && release.id === app.releaseId) return scaleAndWait(context, { app, release, wanted, waitMs });
      const after = await putCounts(context, { app, release, wanted });
      const note =
        release.id === app.releaseId ? 'scale requested' : `v${release.version} starts so when it is deployed`;
      context.show(after, () => note);
    },
  });
}

type Scaling = { app: App; release: Release; wanted: Record<string, number> };

async function showCounts(context: Context, app: App, release: Release): Promise<void> {
  const client = await context.client();
  const { processes } = await client.call(formations.get, { params: { app: app.id, release: release.id } });
  context.show(processes, () =>
    formatTable(
      ['TYPE', 'COUNT'],
      Object.entries(processes).map(([type, count]) => [type, String(count)]),
    ),
  );
}

async function putCounts(context: Context, { app, release, wanted }: Scaling) {
  const client = await context.client();
  const params = { app: app.id, release: release.id };
  const before = await client.call(formations.get, { params });
  const after = await client.call(formations.put, { params, body: { processes: wanted } });
  const changes = Object.keys(wanted).map(
    (type) => `${type} ${before.processes[type] ?? 0}=>${after.processes[type] ?? 0}`,
  );
  if (!context.options.json) context.print(`scaling ${app.name}: ${changes.join(', ')}`);
  return after;
}

async function scaleAndWait(context: Context, scaling: Scaling & { waitMs: number }): Promise<void> {
  const { app, release, waitMs } = scaling;
  const startedAt = performance.now();
  const wanted: Wanted = Object.fromEntries(
    Object.entries(scaling.wanted).map(([type, count]) => [
      type,
      { count, isOmni: release.processes[type]?.omni ?? false },
    ]),
  );
  await using watch = new JobWatch({
    client: await context.client(),
    app: app.id,
    releaseId: release.id,
    signal: withDeadline(waitMs),
    onChange: (change) => tell(context, change),
  });
  // Opened before the change, so that no event of it is missed.
  await watch.open();
  const after = await putCounts(context, scaling);
  try {
    await context.progress('scaling', () => watch.until((present) => isReached(present, wanted)));
  } catch (error) {
    if (!hasCode(error, 'timeout')) throw error;
    throw await timeoutOf(context, scaling);
  }
  context.show(after, () => `scale completed in ${formatSeconds(performance.now() - startedAt)}`);
}

/** Before there is a live release there is nothing to scale, even if `env set` has made one. */
async function releaseOf(context: Context, app: App, wanted: string | undefined): Promise<Release> {
  const client = await context.client();
  const named = wanted ?? app.releaseId;
  if (named !== undefined) return client.call(releases.get, { params: { app: app.id, release: named } });
  throw new FlynnError(
    'not_found',
    `${app.name} has nothing to scale yet\n  git push flynn main makes its first release`,
  );
}

const colours: Readonly<Record<JobChange['what'], Colour>> = {
  up: 'green',
  down: 'dim',
  crashed: 'red',
  failed: 'red',
  lost: 'red',
};

function tell(context: Context, { job, what }: JobChange): void {
  if (context.options.json) return;
  const isBad = what === 'crashed' || what === 'failed';
  const code = job.exitCode === undefined ? '' : `exit code ${job.exitCode}`;
  const why = [job.error, isBad ? code : ''].filter((part) => part !== undefined && part !== '').join(', ');
  const note = why === '' || what === 'down' || what === 'up' ? '' : ` (${why})`;
  context.print(`  ${job.type} ${job.id} ${paint(context.io.stdout, colours[what], what)}${note}`);
}

async function timeoutOf(context: Context, { app, release, wanted, waitMs }: Scaling & { waitMs: number }) {
  const client = await context.client();
  const found = await client.call(jobs.list, { params: { app: app.id } });
  const lines = Object.entries(wanted).map(([type, count]) => {
    const own = found.filter((job) => job.type === type && job.releaseId === release.id);
    const up = own.filter((job) => job.state === 'running').length;
    const others = own.filter((job) => job.state !== 'running');
    const why = others.map((job) => {
      const isUnplaced = job.state === 'pending' && job.hostId === undefined;
      return `\n    ${job.id} ${job.state}: ${job.error ?? (isUnplaced ? 'no host has taken it yet' : 'not up yet')}`;
    });
    return `\n  ${type}: ${up} of ${count} running${why.join('')}`;
  });
  return new FlynnError(
    'timeout',
    `not there after ${waitMs / 1_000} s${lines.join('')}\n  it goes on by itself: "flynn ps" shows how far it is`,
  );
}
