/** What hosts have from one another while the cluster makes it anew: what secrets are sealed under, and its authorities. */
import type { Handler } from '@flynn/kit/http-server';
import type { Logger } from '@flynn/kit/log';
import type { TaskGroup } from '@flynn/kit/tasks';
import type { HostRecord } from '@flynn/scheduler/cell';
import { readRing } from '@flynn/store/sealing/ring';
import type { Store } from '@flynn/store/store';
import type { AgentAccess, AgentPlace } from '../agent-client.ts';
import { FlynnError } from '@flynn/kit/errors';
import type { ContainerTable } from '../containers/table.ts';
import type { HostTrust } from '../trust/host-trust.ts';
import type { JobIdentities } from '../trust/job-identities.ts';
import { AuthorityRounds, authorityHandlers, readNamed } from './authority-rounds.ts';
import type { MemberTrust } from './member-trust.ts';
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
    containers: Pick<ContainerTable, 'all' | 'isCurrent' | 'ofJob'>;
    /** None where nobody runs etcd for the cluster. */
    member: MemberTrust | undefined;
    log: Logger;
  }>,
  tasks: TaskGroup,
): Promise<HandedOver> {
  const { stateDir, store, trust, peers, access, containers, member, log } = deps;
  const common = { stateDir, peers, access, log };
  const sealingKeys = new SealingKeys({
    ...common,
    readRing: async (signal) => (await readRing(store, { signal }))?.ring,
  });
  const rounds =
    trust === undefined
      ? undefined
      : new AuthorityRounds({
          ...common,
          trust,
          readNamed: (signal) => readNamed(store, signal),
          async followUp(signal) {
            await renewJobs(trust.jobs, containers);
            await member?.follow(signal);
          },
        });
  await rounds?.start(tasks.signal);
  await sealingKeys.start(tasks.signal);
  tasks.run('sealing keys', (signal) => sealingKeys.run(signal));
  if (rounds !== undefined) tasks.run('authorities', (signal) => rounds.run(signal));
  return {
    told: () => ({ ...sealingKeys.told(), ...rounds?.told() }),
    handlers: [...sealingKeyHandlers(stateDir), ...authorityHandlers(stateDir)],
  };
}

/** At once: they are looked at each minute, and somebody waits. */
async function renewJobs(jobs: JobIdentities, containers: Pick<ContainerTable, 'isCurrent' | 'ofJob'>): Promise<void> {
  const hasJob = (jobId: string): boolean => containers.ofJob(jobId) !== undefined;
  if (!containers.isCurrent) throw new FlynnError('unavailable', 'which jobs this host has is not known yet');
  await jobs.renew({ hasJob });
  if (await jobs.areOfAuthority(hasJob)) return;
  throw new FlynnError('unavailable', 'not all jobs have a certificate of the authority that issues by now');
}
