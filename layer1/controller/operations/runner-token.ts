/** How a runner shows that it is the one it says. */
import { createHash, createHmac } from 'node:crypto';

/** A runner of the platform needs no token of its own: who holds the cluster's key can make the one of its id. */
export function platformRunnerToken(clusterKey: string, runnerId: string): string {
  return createHmac('sha256', clusterKey).update(`flynn runner ${runnerId}`).digest('base64url');
}

/** Runners' tokens are random and long: a plain digest keeps them. */
export function tokenHash(token: string): string {
  return createHash('sha256').update(token).digest('base64url');
}
