/** What can be scaled by itself, within which range, and what may a person say besides? Pure; throws `invalid`, and what to do. */
import { FlynnError } from '@flynn/kit/errors';
import type { FieldIssue } from '@flynn/resource/type';
import { isStanding, servicesOf } from '../processes/compile.ts';
import { checkCounts } from '../formations/counts.ts';
import type { Process } from '../processes/process.ts';
import type { AppResource, ReleaseResource } from '../resources.ts';
import { signals } from './model.ts';
import type { Settings, SettingsChange, Signal } from './model.ts';

export function settingsIssues(settings: Settings): FieldIssue[] {
  const { min, max } = settings;
  const issues: FieldIssue[] = [];
  if (min > max) issues.push({ path: 'min', message: `there cannot be at least ${min} and at most ${max}` });
  if (signals.every((signal) => settings[signal] === undefined)) {
    issues.push({ path: '', message: `say what it is scaled by: ${signals.join(', ')}, one or more` });
  }
  return issues;
}

/** What is asked for over what there is; a target of null goes. */
export function changedSettings(before: Settings | undefined, change: SettingsChange): Record<string, unknown> {
  const given = Object.entries(change).filter(([, value]) => value !== undefined);
  const all = { ...before, ...Object.fromEntries(given) };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== null));
}

export function isByRequests(settings: Pick<Settings, Signal>): boolean {
  return settings.requestsPerSecond !== undefined || settings.requestsInFlight !== undefined;
}

/** Why jobs of it are not for anybody to count but people, if so. */
export function unscalable(type: string, process: Process, settings: Pick<Settings, Signal>): string | undefined {
  if (process.omni) return `${type} runs on each host: there are more of it with more hosts`;
  if (isStanding(process)) return `${type} keeps data in volumes, which do not come and go with what there is to do`;
  if (settings.cpuPercent !== undefined && process.cpuMillis === 0) {
    return `${type} has no cpu limit that there could be a part of: flynn limit set ${type} cpu=500`;
  }
  if (isByRequests(settings) && servicesOf('', type, process).length === 0) {
    return `${type} has no port that a route could lead to, so no router counts its requests: flynn autoscale set ${type} --cpu 70%`;
  }
  return undefined;
}

/** Of the live release, if there is one; without one it is looked at once there is. */
export function checkScalable(app: AppResource, release: ReleaseResource, type: string, settings: Settings): void {
  checkCounts(app, release, { [type]: settings.min }, {});
  const process = release.spec.processes[type];
  const why = process === undefined ? undefined : unscalable(type, process, settings);
  if (why !== undefined)
    throw new FlynnError('invalid', `${app.spec.name} cannot have ${type} scaled by itself: ${why}`);
  checkCounts(app, release, { [type]: settings.max }, {});
}

/** None turns it off until there are some again; else what people say is a beginning, and within the range. */
export function isWithinRange(count: number, { min, max }: Pick<Settings, 'min' | 'max'>): boolean {
  return count === 0 || (count >= min && count <= max);
}

/** Throws `invalid`, and how to have another range. */
export function checkWithinRange(
  app: string,
  type: string,
  count: number,
  { min, max }: Pick<Settings, 'min' | 'max'>,
): void {
  if (isWithinRange(count, { min, max })) return;
  const flag = count < min ? `--min ${count}` : `--max ${count}`;
  const rest = `another range: flynn -a ${app} autoscale set ${type} ${flag}; by hand again: flynn -a ${app} autoscale remove ${type}`;
  throw new FlynnError(
    'invalid',
    `${type}=${count}: ${type} of ${app} is scaled by itself, from ${min} to ${max} jobs; ${rest}`,
    {
      detail: { type, min, max },
    },
  );
}
