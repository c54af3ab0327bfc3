/** How a runner shows that it is the one it says. */
import { createHash, createHmac, randomBytes } from 'node:crypto';

/** A runner of the platform needs no token of its own: who holds the cluster's key can make the one of its id. */
export function platformRunnerToken(clusterKey: string, runnerId: string): string {
  return createHmac('sha256', clusterKey).update(`flynn runner ${runnerId}`).digest('base64url');
}

const credential = /^flynn_runner_([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)$/;

/** What a runner outside of the cluster, which has no part's token, shows at the gate in its place. */
export function runnerCredential(runnerId: string, token: string): string {
  const [id, secret] = [runnerId, token].map((text) => Buffer.from(text).toString('base64url'));
  return `flynn_runner_${id}.${secret}`;
}

/** Undefined if it is no such credential. Whether it is good is another matter. */
export function readRunnerCredential(text: string): { runnerId: string; token: string } | undefined {
  const [, id, secret] = credential.exec(text) ?? [];
  if (id === undefined || secret === undefined) return undefined;
  const [runnerId = '', token = ''] = [id, secret].map((part) => Buffer.from(part, 'base64url').toString());
  return { runnerId, token };
}

/** Of a runner that an admin adds. */
export function newRunnerToken(): string {
  return randomBytes(32).toString('base64url');
}

/** Runners' tokens are random and long: a plain digest keeps them. */
export function tokenHash(token: string): string {
  return createHash('sha256').update(token).digest('base64url');
}
