/** What an agent before this one announced of jobs that ended while no agent was here. */
import { pause } from '@flynn/kit/clock';
import { messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import type { Instance } from '@flynn/discovery/api';
import type { Registry } from '@flynn/discovery/registry';
import type { Container } from '../engine/engine.ts';
import { label } from '../engine/labels.ts';
import { jobIdOf } from '../jobs/plan.ts';

const lookMs = 200;

/** Those that this host's agents announced, as a job of theirs of which no container runs. */
export function leftOf(instances: readonly Instance[], containers: readonly Container[], hostId: string): Instance[] {
  const running = new Set(containers.filter(({ state }) => state === 'running').map((one) => jobIdOf(one)));
  return instances.filter(
    ({ id, attributes }) => attributes['host'] === hostId && label.group in attributes && !running.has(id),
  );
}

/** Once the containers are known; a job that starts afterwards is announced by this agent. */
export async function withdrawLeft(
  deps: {
    registry: Pick<Registry, 'all' | 'deregister'>;
    containers: { readonly isCurrent: boolean; all(): Container[] };
    hostId: string;
    log: Logger;
  },
  signal: AbortSignal,
): Promise<void> {
  const { registry, containers, hostId, log } = deps;
  while (!containers.isCurrent && !signal.aborted) await pause(lookMs, signal);
  if (signal.aborted) return;
  for (const { service, id } of leftOf(registry.all(), containers.all(), hostId)) {
    // Started again since, it may be announced.
    if (containers.all().some((one) => jobIdOf(one) === id && one.state === 'running')) continue;
    try {
      // Once: what fails is made up for behind it, unless the job is announced first.
      await registry.deregister(service, id);
      log.info({ service, id }, 'its job ended while no agent was here: out of discovery');
    } catch (error) {
      log.warn(`${service}/${id} leaves discovery later: ${messageOf(error)}`);
    }
  }
}
