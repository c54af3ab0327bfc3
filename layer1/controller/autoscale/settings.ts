/** What people say of it: which types are scaled by themselves, within which range; and what they may scale by hand besides. */
import { FlynnError } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { processType } from '@flynn/kit/names';
import { compareOf, fieldIssuesOf, refusal } from '@flynn/resource/record';
import { refuseForDatastore } from '../datastores/guards.ts';
import { findApp, findLiveApp } from '../deps.ts';
import type { Deps } from '../deps.ts';
import { ownedBy, releaseType } from '../resources.ts';
import type { AppResource } from '../resources.ts';
import { autoscales } from './api.ts';
import { settingsSchema } from './model.ts';
import type { Autoscale, Settings, SettingsChange } from './model.ts';
import { autoscaleId, autoscaleType } from './resource.ts';
import type { AutoscaleResource } from './resource.ts';
import { changedSettings, checkScalable, checkWithinRange, isWithinRange, settingsIssues } from './rules.ts';

export function autoscaleHandlers(deps: Deps): Handler[] {
  const { resources } = deps;
  return [
    handle(autoscales.list, async ({ params, signal }) => {
      const app = await findApp(deps, params.app, signal);
      const all = await resources.list(autoscaleType, { owner: ownedBy(app.id), signal });
      return all.map(viewAutoscale).toSorted((a, b) => (a.type < b.type ? -1 : 1));
    }),
    handle(autoscales.set, async ({ params, body, signal }) => {
      const app = await findLiveApp(deps, params.app, signal);
      const before = await findAutoscale(deps, app.id, params.type, signal);
      const next = await nextSettings(deps, { app, type: params.type, before, change: body }, signal);
      return viewAutoscale(await writeAutoscale(deps, { app, type: params.type, before, next }, signal));
    }),
    handle(autoscales.remove, async ({ params, signal }) => {
      const app = await findApp(deps, params.app, signal);
      const found = await findAutoscale(deps, app.id, params.type, signal);
      if (found === undefined) {
        const message = `${params.type} of ${app.spec.name} is not scaled by itself; flynn -a ${app.spec.name} autoscale tells what is`;
        throw new FlynnError('not_found', message);
      }
      await resources.delete(autoscaleType, found.id, { signal });
    }),
  ];
}

export async function findAutoscale(
  { resources }: Pick<Deps, 'resources'>,
  appId: string,
  type: string,
  signal: AbortSignal,
): Promise<AutoscaleResource | undefined> {
  if (!processType.safeParse(type).success) return undefined;
  return resources.find(autoscaleType, autoscaleId(appId, type), { signal });
}

/** What it is to be, checked. Throws `invalid`, and `denied` for a datastore, whose members keep data. */
export async function nextSettings(
  deps: Pick<Deps, 'resources'>,
  asked: {
    app: AppResource;
    type: string;
    before: AutoscaleResource | undefined;
    change: SettingsChange;
    /** Another release is about to be live: whether that has the type is seen then. */
    isMoving?: boolean;
  },
  signal: AbortSignal,
): Promise<Settings> {
  const { app, type, before, change, isMoving = false } = asked;
  refuseForDatastore(app, 'how many members it has is for people to say: flynn scale');
  const settings = checkedSettings(`${app.spec.name}/${type}`, before, change);
  if (isMoving) return settings;
  const { releaseId } = app.status;
  const release = releaseId === undefined ? undefined : await deps.resources.find(releaseType, releaseId, { signal });
  if (release !== undefined) checkScalable(app, release, type, settings);
  return settings;
}

/** The same of an app that is yet to be made. */
export function checkedSettings(name: string, before: AutoscaleResource | undefined, change: SettingsChange): Settings {
  const { data, error } = settingsSchema.safeParse(changedSettings(settingsOf(before), change));
  if (error !== undefined) throw refusal(`autoscale ${name}`, fieldIssuesOf(error));
  const issues = settingsIssues(data);
  if (issues.length > 0) throw refusal(`autoscale ${name}`, issues);
  return data;
}

export function settingsOf(setting: AutoscaleResource | undefined): Settings | undefined {
  if (setting === undefined) return undefined;
  const { appId: _app, type: _type, ...settings } = setting.spec;
  return settings;
}

/** `conflict` if somebody else made it meanwhile, or if it is at another revision than is wanted. */
export async function writeAutoscale(
  { resources }: Pick<Deps, 'resources'>,
  wanted: {
    app: AppResource;
    type: string;
    before: AutoscaleResource | undefined;
    next: Settings;
    revision?: number | undefined;
  },
  signal: AbortSignal,
): Promise<AutoscaleResource> {
  const { app, type, before, next, revision } = wanted;
  const spec = { ...next, appId: app.id, type };
  const at = revision === undefined ? {} : { expectRevision: revision };
  if (before !== undefined) return resources.change(autoscaleType, before.id, () => ({ spec }), { signal, ...at });
  const input = { id: autoscaleId(app.id, type), owner: ownedBy(app.id), spec };
  return resources.create(autoscaleType, input, { signal, also: () => ({ compare: [compareOf(app)] }) });
}

export function viewAutoscale({ spec, status }: AutoscaleResource): Autoscale {
  return { ...spec, ...status };
}

/** Of counts that people want of types that are scaled by themselves: refuses what is outside of their range. */
export async function checkRanges(
  { resources }: Pick<Deps, 'resources'>,
  { id, spec }: AppResource,
  counts: Readonly<Record<string, number>>,
  signal: AbortSignal,
): Promise<void> {
  for (const [type, count] of Object.entries(counts)) {
    const setting = await findAutoscale({ resources }, id, type, signal);
    if (setting !== undefined) checkWithinRange(spec.name, type, count, setting.spec);
  }
}

/**
 * The same of an app's file, which is no refusal: they are brought into their range, and it is noted. `assumed`: what the same
 * files change, `autoscale/shop/web`: they may give another range, after it.
 */
export async function withinRanges(
  { resources }: Pick<Deps, 'resources'>,
  { id, spec }: AppResource,
  counts: Readonly<Record<string, number>>,
  { assumed, signal }: { assumed: readonly string[]; signal: AbortSignal },
): Promise<{ counts: Record<string, number>; notes: string[] }> {
  const found = { counts: { ...counts }, notes: new Array<string>() };
  for (const [type, count] of Object.entries(counts)) {
    if (assumed.includes(`${autoscaleType.name}/${spec.name}/${type}`)) continue;
    const setting = await findAutoscale({ resources }, id, type, signal);
    if (setting === undefined || isWithinRange(count, setting.spec)) continue;
    const { min, max } = setting.spec;
    found.counts[type] = Math.min(max, Math.max(min, count));
    found.notes.push(
      `${type} is scaled by itself, from ${min} to ${max} jobs: its count of ${count} is brought into that`,
    );
  }
  return found;
}
