/** A cluster of test hosts seen from this machine: its store, and whether all that belongs together is together. */
import { readFile } from 'node:fs/promises';
import { get } from 'node:https';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { clientUrlOf, tlsFiles } from '@flynn/host-agent/cluster/etcd-resident';
import { memberKey } from '@flynn/host-agent/cluster/member-keys';
import { FlynnError } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { cellKeys } from '@flynn/scheduler/cell';
import { connectEtcd } from '@flynn/store/etcd';
import type { EtcdTls } from '@flynn/store/etcd-members';
import { SealedEtcd } from '@flynn/store/sealing/sealed-store';
import type { Store } from '@flynn/store/store';
import { sealingKeysOf } from '../rotation/sealing-key-round.ts';
import type { Cluster } from '../settings.ts';
import type { ClusterHost } from './cluster-host.ts';

const maxMembers = 3;
const togetherMs = 300_000;
/** As the kernel writes them. */
const established = '01';
const peerPort = ':094C';

/**
 * With the certificate of the first host that has one, at the hosts' members or where else they are reached. The caller
 * closes it.
 */
export async function connectStore(hosts: readonly ClusterHost[], endpoints?: readonly string[]): Promise<Store> {
  const log = silentLogger();
  const tls = await tlsOf(hosts);
  const etcd = connectEtcd({ endpoints: endpoints ?? (await memberUrls(hosts)), tls, log });
  return new SealedEtcd(etcd, { sealingKeys: async () => sealingKeysOf(await clusterOf(hosts)), log });
}

async function clusterOf(hosts: readonly ClusterHost[]): Promise<Cluster> {
  for (const host of hosts) {
    const cluster = await host.readCluster();
    if (cluster !== undefined) return cluster;
  }
  throw new FlynnError('not_found', 'none of the hosts is of a cluster');
}

async function tlsOf(hosts: readonly ClusterHost[]): Promise<EtcdTls> {
  for (const host of hosts) {
    if ((await host.readCluster()) === undefined) continue;
    const read = (file: string): Promise<string> => readFile(join(host.stateDir, file), 'utf8');
    const [ca, certificate, privateKey] = await Promise.all([
      read(tlsFiles.authority),
      read(tlsFiles.certificate),
      read(tlsFiles.key),
    ]);
    return { ca, certificate, privateKey };
  }
  throw new FlynnError('not_found', 'none of the hosts is of a cluster');
}

/** Whether the host's member of etcd says it leads the others; no when it does not answer. */
export async function isStoreLeader(host: ClusterHost): Promise<boolean> {
  const { ca, certificate: cert, privateKey: key } = await tlsOf([host]);
  const answer = Promise.withResolvers<string>();
  const url = `${clientUrlOf(host.address)}/metrics`;
  const asking = get(url, { ca, cert, key, agent: false, timeout: 2_000 }, (response) => {
    answer.resolve(text(response));
  });
  asking.on('timeout', () => asking.destroy(new Error('no answer')));
  asking.on('error', answer.reject);
  try {
    return (await answer.promise).includes('\netcd_server_is_leader 1\n');
  } catch {
    return false;
  }
}

/**
 * Until what a member of etcd sends to another arrives at once. Where two could not reach each other their kernels wait ever
 * longer before they try again, however well the rest goes: a third that is lost in that time costs the majority.
 */
export async function untilStoreLinked(hosts: readonly ClusterHost[]): Promise<void> {
  await waitFor(
    async () => {
      // Of two hosts that were three one gives its member back, at any time in this.
      const members = hosts.filter((host) => host.hasStore());
      return (await Promise.all(members.map(isStoreWaiting))).every((isWaiting) => !isWaiting);
    },
    { what: 'the members of etcd to reach each other', deadlineMs: togetherMs, intervalMs: 100 },
  );
}

/** Whether its kernel has sent something to another member and not heard of it. */
async function isStoreWaiting(host: ClusterHost): Promise<boolean> {
  const tables = await Promise.all(
    ['tcp', 'tcp6'].map((name) => readFile(`/proc/${host.storePid()}/net/${name}`, 'latin1')),
  );
  return tables.some((table) =>
    table.split('\n').some((line) => {
      // sl local remote state tx:rx timer:when retransmitted …
      const [, local = '', remote = '', state, , timer = '', retransmitted = ''] = line.trimStart().split(/ +/);
      const isOfPeers = local.endsWith(peerPort) || remote.endsWith(peerPort);
      return isOfPeers && state === established && timer.startsWith('01:') && Number.parseInt(retransmitted, 16) > 0;
    }),
  );
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
  const wanted = hosts.filter(({ isBehindNat }) => !isBehindNat).length < maxMembers ? 1 : maxMembers;
  return voters >= wanted ? missing : [...missing, `${wanted - voters} of ${wanted} members of etcd`];
}

function isVoter(member: unknown): boolean {
  return typeof member === 'object' && member !== null && 'state' in member && member.state === 'voter';
}
