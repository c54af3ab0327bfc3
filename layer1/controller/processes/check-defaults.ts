/** What do the checks of a release have that say nothing else? */
import { z } from 'zod';
import type { App } from '../model.ts';
import type { Process } from './process.ts';

/** Of the release, not of the app: jobs that run are none of a setting's. */
export const checkDefaultsSchema = z.object({ statusBelow: z.int(), startTimeoutMs: z.int() });
export type CheckDefaults = z.output<typeof checkDefaultsSchema>;

export const defaultCheck = {
  type: 'tcp',
  path: '/',
  intervalMs: 2_000,
  timeoutMs: 2_000,
  threshold: 2,
  startTimeoutMs: 60_000,
} as const;

/** A release of an app gives up on a job that does not come up a minute before its deployment gives up on the release. */
export const beforeDeploymentMs = 60_000;

/** What answers with an error is not up: a path that is not there, a host name it does not know. */
const errorStatus = 400;

export function checkDefaults({ deployTimeoutMs }: Pick<App, 'deployTimeoutMs'>): CheckDefaults {
  const startTimeoutMs = Math.max(defaultCheck.startTimeoutMs, deployTimeoutMs - beforeDeploymentMs);
  return { statusBelow: errorStatus, startTimeoutMs };
}

type Port = Process['ports'][number];

export function withDefaults(port: Port, { statusBelow, startTimeoutMs }: CheckDefaults): Port {
  const { service, protocol } = port;
  if (service === undefined) return port;
  const { check } = service;
  if (check === undefined) {
    // Hosts check a port that says nothing of it in the same way, and give it the time of the default.
    if (protocol !== 'tcp' || startTimeoutMs === defaultCheck.startTimeoutMs) return port;
    return { ...port, service: { ...service, check: { ...defaultCheck, startTimeoutMs } } };
  }
  if (check.type !== 'http' || check.status !== undefined || check.statusBelow !== undefined) return port;
  return { ...port, service: { ...service, check: { ...check, statusBelow } } };
}
