/** A cluster of test hosts seen from this machine: its store, and whether all that belongs together is together. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { clientUrlOf, tlsFiles } from '@flynn/host-agent/cluster/etcd-resident';
import { memberKey } from '@flynn/host-agent/cluster/member-keys';
import { FlynnError } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { cellKeys } from '@flynn/scheduler/cell';
import { connectEtcd } from '@flynn/store/etcd';
import type { Store } from '@flynn/store/store';
import type { ClusterHost } from './cluster-host.ts';

const maxMembers = 3;
const togetherMs = 120_000;

/** With the certificate of the first host that has one. The caller closes it. */
export async function connectStore(hosts: readonly ClusterHost[]): Promise<Store> {
  for (const host of hosts) {
    if ((await host.readCluster()) === undefined) continue;
    const read = (file: string): Promise<string> => readFile(join(host.stateDir, file), 'utf8');
    const [ca, certificate, privateKey] = await Promise.all([
      read(tlsFiles.authority),
      read(tlsFiles.certificate),
      read(tlsFiles.key),
    ]);
    const endpoints = await memberUrls(hosts);
    return connectEtcd({ endpoints, tls: { ca, certificate, privateKey }, log: silentLogger() });
  }
  throw new FlynnError('not_found', 'none of the hosts is of a cluster');
}

/** Of hosts that run a member, as their disks tell: a client would wait for those that never had one. */
async function memberUrls(hosts: readonly ClusterHost[]): Promise<string[]> {
  const having = hosts.filter((host) => host.hasStore());
  return (having.length === 0 ? hosts : having).map(({ address }) => clientUrlOf(address));
}

/** Until every host is in the cell, and etcd has the members that so many hosts are given, each with a vote. */
export async function untilTogether(
  hosts: readonly ClusterHost[],
  options: { signal?: AbortSignal } = {},
): Promise<void> {
  await waitFor(
    async () => {
      const missing = await missingParts(hosts);
      if (missing.length > 0) throw new FlynnError('unavailable', `${missing.join(', ')} missing`);
      return true;
    },
    { what: `all ${hosts.length} hosts to be in the cluster`, deadlineMs: togetherMs, intervalMs: 500, ...options },
  );
}

async function missingParts(hosts: readonly ClusterHost[]): Promise<string[]> {
  await using store = await connectStore(hosts);
  const [cell, members] = await Promise.all([store.list(cellKeys.hosts), store.list(memberKey(''))]);
  const present = new Set(cell.entries.map(({ key }) => key));
  const missing = hosts.filter(({ name }) => !present.has(cellKeys.host(name))).map(({ name }) => name);
  const voters = members.entries.filter(({ value }) => isVoter(JSON.parse(value))).length;
  // Fewer than three hosts have one member: a second alone would only be one more that can fail.
  const wanted = hosts.length < maxMembers ? 1 : maxMembers;
  return voters >= wanted ? missing : [...missing, `${wanted - voters} of ${wanted} members of etcd`];
}

function isVoter(member: unknown): boolean {
  return typeof member === 'object' && member !== null && 'state' in member && member.state === 'voter';
}
