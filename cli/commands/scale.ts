import { apps, formations, releases } from '@flynn/controller/api';
import { workloadIdOf } from '@flynn/controller/processes/compile';
import type { App, Release } from '@flynn/controller/model';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { withDeadline } from '@flynn/kit/retry';
import { parseCounts, parseWhole } from '../arguments.ts';
import { autoscaleLines, listAutoscales } from '../apps/autoscale.ts';
import type { Context } from '../context.ts';
import { isReached, type JobChange, JobWatch, type Wanted } from '../deployments/job-watch.ts';
import { type Colour, formatSeconds, formatTable, paint } from '../output.ts';
import { followBlocked, makeRoom } from '../deployments/waiting-jobs.ts';
import { addCommand, type Parent } from './command.ts';
import { type Scaling, scaleTimeout } from './scale-timeout.ts';

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

async function showCounts(context: Context, app: App, release: Release): Promise<void> {
  const client = await context.client();
  const [{ processes }, scaled] = await Promise.all([
    client.call(formations.get, { params: { app: app.id, release: release.id } }),
    context.options.json ? [] : listAutoscales(context, app.id),
  ]);
  context.show(processes, () => {
    const rows = Object.entries(processes).map(([type, count]) => [type, String(count)]);
    return `${formatTable(['TYPE', 'COUNT'], rows)}${autoscaleLines(scaled, Date.now())}`;
  });
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
  const signal = withDeadline(waitMs);
  await using watch = new JobWatch({
    client: await context.client(),
    app: app.id,
    releaseId: release.id,
    signal,
    onChange: (change) => tell(context, change),
  });
  await openBeforeChange(watch, signal, waitMs);
  const after = await putCounts(context, scaling);
  try {
    await whileBlockedIsTold(context, scaling, signal, () =>
      context.progress('scaling', () => watch.until((present) => isReached(present, wanted))),
    );
  } catch (error) {
    if (!hasCode(error, 'timeout')) throw error;
    throw await scaleTimeout(context, scaling);
  }
  context.show(after, () => `scale completed in ${formatSeconds(performance.now() - startedAt)}`);
}

/** Opened before the change, so that no event of it is missed. */
async function openBeforeChange(watch: JobWatch, signal: AbortSignal, waitMs: number): Promise<void> {
  try {
    await watch.open();
  } catch (error) {
    if (!signal.aborted) throw error;
    throw new FlynnError(
      'timeout',
      `nothing was scaled: the controller did not tell of the jobs there are within ${waitMs / 1_000} s\n  "flynn status" tells how the cluster is; try again, with more time: --timeout`,
      { cause: error },
    );
  }
}

/** Nothing is heard of a job that has no place: it is the schedulers who say that it waits, and why. */
async function whileBlockedIsTold(
  context: Context,
  { app, release, wanted, waitMs }: Scaling & { waitMs: number },
  deadline: AbortSignal,
  work: () => Promise<void>,
): Promise<void> {
  const ended = new AbortController();
  const types = new Map(Object.keys(wanted).map((type) => [workloadIdOf(app.id, release, type), type]));
  let isFirst = true;
  const telling = followBlocked(
    { client: await context.client(), app: app.id, workloadIds: [...types.keys()] },
    {
      signal: AbortSignal.any([deadline, ended.signal]),
      clock: context.io.clock,
      onBlocked(id, why) {
        context.tell(`  ${types.get(id) ?? id}: ${why}`);
        if (isFirst) {
          context.tell(`  waiting on, for ${waitMs / 1_000} s in all: it starts as soon as there is room; ${makeRoom}`);
        }
        isFirst = false;
      },
    },
  );
  try {
    await work();
  } finally {
    ended.abort();
    await telling;
  }
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
