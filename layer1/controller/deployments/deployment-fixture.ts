/** Deployments in the controller's simulated world, step by step, and hosts that come back to it. For tests. */
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { deployments } from '../api.ts';
import type { Deployment } from '../model.ts';
import { SimulatedHost } from '../testing/simulated-host.ts';
import type { TestController } from '../testing.ts';

export async function beginDeployment({ client }: TestController, app: string, releaseId: string): Promise<string> {
  const { id } = await client.call(deployments.create, { params: { app }, body: { releaseId } });
  return id;
}

export function deploymentReaches(
  { client }: TestController,
  id: string,
  isReached: (deployment: Deployment) => boolean,
): Promise<Deployment> {
  const look = async () => {
    const deployment = await client.call(deployments.get, { params: { deployment: id } });
    return isReached(deployment) && deployment;
  };
  return waitFor(look, { what: `deployment ${id}`, deadlineMs: 30_000, intervalMs: 5 });
}

export const hasEnded = ({ endedAt }: Deployment): boolean => endedAt !== undefined;

/** As if their machines had lost power. */
export async function loseHosts({ hosts }: TestController, ids: readonly string[]): Promise<void> {
  for (const host of hosts) if (ids.includes(host.id)) await host[Symbol.asyncDispose]();
}

/** A host that was lost, as its agent comes back; to be started. */
export function hostAgain({ store, key }: TestController, id: string): SimulatedHost {
  return new SimulatedHost({ store, id, key, log: silentLogger(), behave: () => ({ is: 'run' }) });
}
