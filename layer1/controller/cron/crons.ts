/** Lines of cron as people see them: listed, run by hand, paused. */
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { shortId } from '@flynn/kit/ids';
import { writePiece } from '@flynn/resource/piece';
import { compareOf } from '@flynn/resource/record';
import { crons } from './api.ts';
import { maxRunning } from './plan.ts';
import { nextTick, parseSchedule } from './schedule.ts';
import { startPiece } from './steps.ts';
import { findApp, findLiveApp } from '../deps.ts';
import type { Deps } from '../deps.ts';
import { iso } from '../jobs/views.ts';
import type { Cron } from './model.ts';
import { runnableOf } from '../releases/releases.ts';
import { cronType, ownedBy, releaseType } from '../resources.ts';
import type { AppResource, CronResource } from '../resources.ts';

const maxAttempts = 8;

export function cronHandlers(deps: Deps): Handler[] {
  const { resources } = deps;
  const setPaused = async (input: { app: string; cron: string }, isPaused: boolean, signal: AbortSignal) => {
    const { id } = await findCron(deps, await findLiveApp(deps, input.app, signal), input.cron, signal);
    return viewCron(await pauseCron(deps, id, { isPaused }, signal), deps.now());
  };
  return [
    handle(crons.list, async ({ params, signal }) => {
      const app = await findApp(deps, params.app, signal);
      const all = await resources.list(cronType, { owner: ownedBy(app.id), signal });
      return all.map((cron) => viewCron(cron, deps.now())).sort((a, b) => (a.command < b.command ? -1 : 1));
    }),
    handle(crons.run, async ({ params, signal }) => {
      for (let attempt = 1; ; attempt += 1) {
        const app = await findLiveApp(deps, params.app, signal);
        try {
          return await runNow(deps, app, await findCron(deps, app, params.cron, signal), signal);
        } catch (error) {
          const isOvertaken = hasCode(error, 'conflict') && error.detail['key'] !== undefined;
          if (!isOvertaken || attempt >= maxAttempts) throw error;
        }
      }
    }),
    handle(crons.pause, ({ params, signal }) => setPaused(params, true, signal)),
    handle(crons.resume, ({ params, signal }) => setPaused(params, false, signal)),
  ];
}

/** With a revision `conflict` if it is at another. */
export async function pauseCron(
  deps: Pick<Deps, 'resources' | 'now'>,
  id: string,
  { isPaused, revision }: { isPaused: boolean; revision?: number | undefined },
  signal: AbortSignal,
): Promise<CronResource> {
  return deps.resources.updateStatus(
    cronType,
    id,
    ({ status }) =>
      status.isPaused === isPaused
        ? status
        : // What passed meanwhile is not made up for.
          { ...status, isPaused, handledMs: isPaused ? status.handledMs : Math.max(status.handledMs, deps.now()) },
    { signal, ...(revision === undefined ? {} : { expectRevision: revision }) },
  );
}

async function runNow(deps: Deps, app: AppResource, cron: CronResource, signal: AbortSignal): Promise<Cron> {
  const releaseId = app.status.releaseId ?? '';
  const runnable = await runnableOf(deps, app, await deps.resources.get(releaseType, releaseId, { signal }), signal);
  if (runnable === undefined) {
    throw new FlynnError('invalid', `${app.spec.name} has no image or slug: there is nothing to run in`);
  }
  const running = cron.status.runs.filter(({ state }) => state === 'running').length;
  if (running >= maxRunning) {
    throw new FlynnError(
      'exhausted',
      `${running} runs of this line go on, which is as many as may: try again when one has ended, or stop some with: flynn kill`,
    );
  }
  const { piece, runs } = startPiece(deps, { runnable, cron, runs: cron.status.runs, name: shortId() });
  const next: CronResource = { ...cron, status: { ...cron.status, runs } };
  await deps.resources.commit([writePiece(cronType, cron, next), piece, { compare: [compareOf(app)] }], { signal });
  return viewCron(next, deps.now());
}

/** By the id that the list tells, or its beginning. */
export async function findCron(deps: Deps, app: AppResource, id: string, signal: AbortSignal): Promise<CronResource> {
  const all = await deps.resources.list(cronType, { owner: ownedBy(app.id), signal });
  const found = all.filter((cron) => shortOf(cron).startsWith(id));
  const [cron] = found;
  if (cron !== undefined && found.length === 1) return cron;
  const why =
    found.length > 1 ? `"${id}" begins ${found.length} lines of cron of` : `there is no line of cron "${id}" of`;
  throw new FlynnError('not_found', `${why} ${app.spec.name}; list them with: flynn cron -a ${app.spec.name}`);
}

function shortOf({ id, spec }: CronResource): string {
  return id.slice(spec.appId.length + 1);
}

export function viewCron(cron: CronResource, nowMs: number): Cron {
  const { schedule, timezone } = cron.spec;
  const { handledMs: _handled, ...status } = cron.status;
  const next = cron.status.isPaused ? undefined : nextTick(parseSchedule(schedule, timezone), nowMs);
  return { ...cron.spec, ...status, id: shortOf(cron), ...(next === undefined ? {} : { nextAt: iso(next) }) };
}
