/** The kind Autoscale: a process type that is scaled by itself, `APP/TYPE`. */
import { ifFound } from '@flynn/kit/errors';
import { processType } from '@flynn/kit/names';
import { refusal } from '@flynn/resource/record';
import { findApp, findLiveApp } from '../deps.ts';
import type { Deps } from '../deps.ts';
import { differences } from '../generic/difference.ts';
import { defineKind } from '../generic/kind.ts';
import type { Applied, ApplyContext, Wanted } from '../generic/kind.ts';
import { checkOwner } from '../generic/plain.ts';
import { appType } from '../resources.ts';
import { autoscaling } from './controller.ts';
import { settingsChangeSchema } from './model.ts';
import type { SettingsChange } from './model.ts';
import { autoscaleType } from './resource.ts';
import type { AutoscaleResource } from './resource.ts';
import { checkedSettings, findAutoscale, nextSettings, settingsOf, writeAutoscale } from './settings.ts';

export const autoscaleKind = defineKind({
  type: autoscaleType,
  summary: 'a process type that has as many jobs as there is to do for: flynn autoscale',
  columns: { APP: 'owner', MIN: 'spec.min', MAX: 'spec.max', LAST: 'status.last.why' },
  wanted: settingsChangeSchema,
  appliesPatches: true,
  find: findNamed,
  async view(_deps, setting, read) {
    const app = await read.find(appType, setting.spec.appId);
    const name = `${app?.spec.name ?? setting.spec.appId}/${setting.spec.type}`;
    return { name, spec: settingsOf(setting) ?? {} };
  },
  apply,
  controllers: [autoscaling],
});

function partsOf(name: string): { appName: string; type: string } {
  const [appName = '', type = ''] = name.split('/');
  return { appName, type };
}

async function findNamed(deps: Deps, name: string, signal: AbortSignal): Promise<AutoscaleResource | undefined> {
  const { appName, type } = partsOf(name);
  if (type === '') return deps.resources.find(autoscaleType, name, { signal });
  const app = await ifFound(findApp(deps, appName, signal));
  return app === undefined ? undefined : findAutoscale(deps, app.id, type, signal);
}

async function apply(
  deps: Deps,
  { name = '', owner, spec, revision }: Wanted<SettingsChange>,
  { isDryRun, assumed, signal, current: before }: ApplyContext<AutoscaleResource>,
): Promise<Applied> {
  const { appName, type } = partsOf(name);
  const what = `autoscale ${name}`;
  if (appName === '' || !processType.safeParse(type).success) {
    throw refusal(what, [{ path: 'name', message: 'it is called by its app and its process type, like shop/web' }]);
  }
  if (before !== undefined) checkOwner(name, before, owner);
  else if (owner?.type !== 'app') {
    throw refusal(what, [{ path: 'owner', message: `it belongs to an app, say which: owner: app/${appName}` }]);
  }
  const appId = before?.spec.appId ?? owner?.id ?? '';
  // That of a dry run may be about to be made: then it is known by its name.
  const app = isDryRun ? await deps.resources.find(appType, appId, { signal }) : await findLiveApp(deps, appId, signal);
  if ((app?.spec.name ?? appId) !== appName && appId !== appName) {
    throw refusal(what, [{ path: 'owner', message: `it is called after another app than it belongs to` }]);
  }
  // The same files may give the app another release, which is deployed before this is written.
  const isMoving = (isDryRun && assumed.includes(`app/${appName}`)) || app?.status.deploymentId !== undefined;
  const next =
    app === undefined
      ? checkedSettings(name, before, spec)
      : await nextSettings(deps, { app, type, before, change: spec, isMoving }, signal);
  const was = before === undefined ? {} : { spec: settingsOf(before) };
  const changes = differences(was, { spec: next });
  if (!isDryRun && app !== undefined && changes.length > 0) {
    await writeAutoscale(deps, { app, type, before, next, revision }, signal);
  }
  return { name, isNew: before === undefined, changes };
}
