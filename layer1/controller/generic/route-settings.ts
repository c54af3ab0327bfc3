/** What a file says of how a route answers, beyond where it is and who answers. Pure. */
import { FlynnError } from '@flynn/kit/errors';
import type { FieldIssue } from '@flynn/resource/type';
import { wrongSettings } from '../routes/creation.ts';
import { unguarded } from '../routes/guard.ts';
import { changedHttp, changedTcp, routeIssues } from '../routes/rules.ts';
import type { RouteRules } from '../routes/rules.ts';
import { httpSettingsSchema, tcpSettingsSchema } from '../routes/settings.ts';
import type { HttpChange, HttpSettings, TcpChange, TcpSettings } from '../routes/settings.ts';
import { isRecord, unlike } from './difference.ts';

export type RouteSettings = { http: HttpSettings; tcp: TcpSettings };
export type SettingsChange = { http?: HttpChange | undefined; tcp?: TcpChange | undefined };

export const defaultSettings: RouteSettings = { http: httpSettingsSchema.parse({}), tcp: tcpSettingsSchema.parse({}) };

/** As a file would have them: those that are as they are without saying are left out. */
export function shownSettings(settings: RouteSettings): Record<string, object> {
  const plain = { http: unguarded(settings.http), tcp: settings.tcp };
  const shown = (['http', 'tcp'] as const).map((type) => [type, unlike(plain[type], defaultSettings[type])] as const);
  return Object.fromEntries(
    shown.flatMap(([type, value]) => (isRecord(value) && Object.keys(value).length > 0 ? [[type, value]] : [])),
  );
}

/** The fields that are left out stay. What is wrong is told, by its path in the route. */
export function changedSettings(
  where: Omit<RouteRules, keyof RouteSettings>,
  before: RouteSettings,
  change: SettingsChange,
): { settings: RouteSettings; issues: readonly FieldIssue[] } {
  try {
    const other = where.type === 'http' ? 'tcp' : 'http';
    if (change[other] !== undefined) throw wrongSettings(other, where.type);
    const settings = {
      http: changedHttp(before.http, change.http ?? {}),
      tcp: changedTcp(before.tcp, change.tcp ?? {}),
    };
    return { settings, issues: routeIssues({ ...where, ...settings }) };
  } catch (error) {
    return { settings: before, issues: issuesOf(error) };
  }
}

/** Of a refusal; throws everything else. */
export function issuesOf(error: unknown): readonly FieldIssue[] {
  const issues: unknown = error instanceof FlynnError ? error.detail['issues'] : undefined;
  if (!Array.isArray(issues)) throw error;
  return issues;
}
