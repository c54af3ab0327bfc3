/** What hosts have from one another while the cluster makes it anew: what secrets are sealed under, and its authorities. */
import type { Handler } from '@flynn/kit/http-server';
import type { Logger } from '@flynn/kit/log';
import type { TaskGroup } from '@flynn/kit/tasks';
import type { HostRecord } from '@flynn/scheduler/cell';
import { readRing } from '@flynn/store/sealing/ring';
import type { Store } from '@flynn/store/store';
import type { AgentAccess, AgentPlace } from '../agent-client.ts';
import type { HostTrust } from '../trust/host-trust.ts';
import { AuthorityRounds, authorityHandlers, readNamed } from './authority-rounds.ts';
import { SealingKeys, sealingKeyHandlers } from './sealing-keys.ts';

export type HandedOver = Readonly<{
  /** What the host says of itself. */
  told: () => Partial<HostRecord>;
  handlers: Handler[];
}>;

/** Resolves once the host has them, or after seconds without: before it takes jobs. */
export async function startHandedOver(
  deps: Readonly<{
    stateDir: string;
    store: Store;
    /** None where the host has no certificates. */
    trust: HostTrust | undefined;
    peers: () => readonly AgentPlace[];
    access: AgentAccess;
    log: Logger;
  }>,
  tasks: TaskGroup,
): Promise<HandedOver> {
  const { stateDir, store, trust, peers, access, log } = deps;
  const common = { stateDir, peers, access, log };
  const sealingKeys = new SealingKeys({
    ...common,
    readRing: async (signal) => (await readRing(store, { signal }))?.ring,
  });
  const rounds =
    trust === undefined
      ? undefined
      : new AuthorityRounds({ ...common, trust, readNamed: (signal) => readNamed(store, signal) });
  await rounds?.start(tasks.signal);
  await sealingKeys.start(tasks.signal);
  tasks.run('sealing keys', (signal) => sealingKeys.run(signal));
  if (rounds !== undefined) tasks.run('authorities', (signal) => rounds.run(signal));
  return {
    told: () => ({ ...sealingKeys.told(), ...rounds?.told() }),
    handlers: [...sealingKeyHandlers(stateDir), ...authorityHandlers(stateDir)],
  };
}
