/** The door of this host, open for as long as its agent runs: without jobs that have a keyspace nobody gets as far as it. */
import type { Logger } from '@flynn/kit/log';
import { type TaskGroup, forever } from '@flynn/kit/tasks';
import type { EtcdClient } from '@flynn/store/etcd';
import { EtcdGateway } from '@flynn/store/etcd-gateway';
import type { EtcdTls } from '@flynn/store/etcd-members';
import { once } from 'node:events';
import type { ContainerTable } from '../containers/table.ts';
import type { Door } from './door.ts';
import { keyspacePort } from './keyspace.ts';
import { serveDoor } from './server.ts';

export type KeyspacesDeps = Readonly<{
  /** The host's address in its containers' network. */
  gateway: string;
  containers: Pick<ContainerTable, 'all' | 'onChange'>;
  store: Pick<EtcdClient, 'endpoints'>;
  tls: EtcdTls | undefined;
  log: Logger;
}>;

/** A port that somebody else has is told, and tried again: it keeps no host from its work. */
export function startKeyspaces(deps: KeyspacesDeps, tasks: TaskGroup): void {
  const { log } = deps;
  tasks.run('keyspaces', (signal) =>
    forever('the door to keyspaces', (until) => keepOpen(deps, until), { signal, log, minMs: 1_000, maxMs: 60_000 }),
  );
}

async function keepOpen({ gateway, containers, store, tls, log }: KeyspacesDeps, signal: AbortSignal): Promise<void> {
  using etcd = new EtcdGateway({ endpoints: () => store.endpoints, tls });
  const deps = { gateway: etcd, containers: () => containers.all(), now: () => performance.now() };
  // Hosts without such jobs, which are most, do without what judges requests.
  const load = async (): Promise<Door> => new (await import('./door.ts')).Door(deps);
  let loading: Promise<Door> | undefined;
  let door: Door | undefined;
  const answer: Door['answer'] = async (request) => {
    door ??= await (loading ??= load());
    return door.answer(request);
  };
  const off = containers.onChange(() => door?.containersChanged());
  try {
    await using _server = await serveDoor({ door: { answer }, host: gateway, port: keyspacePort, log });
    if (!signal.aborted) await once(signal, 'abort');
  } finally {
    off();
  }
}
