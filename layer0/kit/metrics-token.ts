/** Who may read figures: who has a server's key, or the token made of it that opens nothing else. */
import { createHmac } from 'node:crypto';

export const metricsPath = '/metrics';
export const metricsType = 'text/plain; version=0.0.4; charset=utf-8';
/** Where the controller tells all addresses that have figures. */
export const metricsTargetsPath = '/metrics-targets';

export function isForMonitoring(path: string): boolean {
  return path === metricsPath || path === metricsTargetsPath;
}

/** What monitoring is given: it reads figures everywhere in the cluster, and nothing else. */
export function metricsToken(key: string): string {
  return createHmac('sha256', key).update('metrics').digest('base64url');
}
