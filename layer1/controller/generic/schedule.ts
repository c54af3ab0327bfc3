/** The kind Cron: a line of the live release's schedule. What it runs comes with the code; here it is paused and looked at. */
import { ifFound } from '@flynn/kit/errors';
import { refusal } from '@flynn/resource/record';
import { z } from 'zod';
import { findCron, pauseCron, viewCron } from '../cron/crons.ts';
import { findApp } from '../deps.ts';
import type { Deps } from '../deps.ts';
import { appType, cronType } from '../resources.ts';
import type { CronResource } from '../resources.ts';
import { differences } from './difference.ts';
import { defineKind } from './kind.ts';
import type { Applied, ApplyContext, Wanted } from './kind.ts';

const wantedSchema = z.strictObject({
  /** Its ticks pass without anything being run. */
  isPaused: z.boolean().optional(),
});

export const cronKind = defineKind({
  type: cronType,
  summary: 'a command that the live release wants run on a schedule',
  columns: { APP: 'owner', SCHEDULE: 'status.schedule', COMMAND: 'status.command', PAUSED: 'spec.isPaused' },
  wanted: wantedSchema,
  // It comes with the release.
  isExported: false,
  isRemovable: false,
  find: findNamed,
  async view(deps, cron, read) {
    const app = await read.find(appType, cron.spec.appId);
    // What the release says of it is none of a file's.
    const { id, appId: _appId, isPaused, ...status } = viewCron(cron, deps.now());
    return { name: `${app?.spec.name ?? cron.spec.appId}/${id}`, spec: { isPaused }, status };
  },
  apply,
});

/** `shop/3fa9…`: an app and the line's id as the list tells it, or its beginning. */
async function findNamed(deps: Deps, name: string, signal: AbortSignal): Promise<CronResource | undefined> {
  const [appName = '', line] = name.split('/');
  if (line === undefined) return deps.resources.find(cronType, name, { signal });
  const app = await ifFound(findApp(deps, appName, signal));
  return app === undefined ? undefined : ifFound(findCron(deps, app, line, signal));
}

async function apply(
  deps: Deps,
  { name = '', revision, spec }: Wanted<z.output<typeof wantedSchema>>,
  { isDryRun, signal, current: cron }: ApplyContext<CronResource>,
): Promise<Applied> {
  if (cron === undefined) {
    const message = 'no line of cron is called that (APP/ID): lines come with the cron of an app.json, see flynn cron';
    throw refusal(`cron ${name}`, [{ path: 'name', message }]);
  }
  const isPaused = spec.isPaused ?? cron.status.isPaused;
  const changes = differences({ spec: { isPaused: cron.status.isPaused } }, { spec: { isPaused } });
  if (!isDryRun && changes.length > 0) await pauseCron(deps, cron.id, { isPaused, revision }, signal);
  return { name, isNew: false, changes };
}
