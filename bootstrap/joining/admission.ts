/** Letting other hosts in, and being let in: tokens, what joining hosts are told, and what they make of it. */
import { join } from 'node:path';
import {
  type JoiningHost,
  askToJoin,
  formatToken,
  isSuccessor,
  parseToken,
  passSecretOf,
  passUntil,
} from '@flynn/host-agent/cluster/join';
import type { Admission } from '@flynn/host-agent/cluster/join-server';
import { leaseSubnet } from '@flynn/host-agent/cluster/subnets';
import { leasePrefix, leaseSchema, type Lease } from '@flynn/host-agent/network/lease';
import { admissionFile, shownBehind } from '@flynn/host-agent/trust/authorities';
import { lanAddress } from '@flynn/host-agent/hosts/own-addresses';
import { FlynnError } from '@flynn/kit/errors';
import { readTextFile, writeFileAtomic } from '@flynn/kit/files';
import { fingerprintOf } from '@flynn/kit/certificate';
import type { Credentials } from '@flynn/kit/tls';
import type { Store } from '@flynn/store/store';
import { commands, versionOfThis } from '../origin.ts';
import { openDoor } from './open-door.ts';
import { commonRootKey } from '../rotation/rotation.ts';
import { type Cluster, sharedSchema } from '../settings.ts';

/** Long enough for whoever sets machines up today. */
const tokenMs = 24 * 3_600_000;
const joinMs = 60_000;

/** What the agent of this host tells those that join. */
export async function writeAdmission(stateDir: string, cluster: Cluster, own: Credentials): Promise<void> {
  const admission: Admission = {
    secret: passSecretOf(cluster),
    range: cluster.range,
    certificate: own.certificate + shownBehind(cluster),
    privateKey: own.privateKey,
    release: versionOfThis(),
    // While it is made anew, the one that all controllers take: who joins looks at the store for the one there is by then.
    settings: sharedSchema.parse({ ...cluster, controllerKey: commonRootKey(cluster) }),
  };
  const file = join(stateDir, admissionFile);
  const text = `${JSON.stringify(admission, undefined, 2)}\n`;
  if ((await readTextFile(file)) !== text) await writeFileAtomic(file, text);
}

export async function leasesOf(store: Store): Promise<Lease[]> {
  const { entries } = await store.list(leasePrefix);
  return entries.map(({ value }) => leaseSchema.parse(JSON.parse(value)));
}

/** This host's own lease, which says to the others where its containers are. */
export async function ensureLease(store: Store, cluster: Cluster): Promise<void> {
  const { hostId, site, range, subnet } = cluster;
  const address = site === undefined ? cluster.address : (cluster.localAddress ?? lanAddress(cluster.bridge));
  const request = { hostId, address, range, subnet, now: Date.now(), ...(site === undefined ? {} : { site }) };
  await leaseSubnet(store, request, { mayMove: true });
}

/** Names this host first: it is certainly there. Those behind NAT let nobody in: who joins does not reach them yet. */
export async function makeToken(store: Store, cluster: Cluster): Promise<string> {
  const others = (await leasesOf(store))
    .filter(({ site, address }) => site === undefined && address !== cluster.address)
    .map(({ address }) => address);
  return formatToken({
    addresses: [...(cluster.site === undefined ? [cluster.address] : []), ...others.slice(0, 4)],
    fingerprint: fingerprintOf(cluster.authority.certificate),
    secret: passUntil(passSecretOf(cluster), Date.now() + tokenMs),
  });
}

/**
 * What this machine is to the cluster of the token: `new` to it; `known`, a host of it; or `left`, one that was away while the
 * cluster's authority was made anew, so that neither knows the other any more. Throws `conflict` when it is of another cluster,
 * and as `askToJoin` does.
 */
export async function standingOf(
  token: string,
  stored: Cluster | undefined,
  options: { port?: number } = {},
): Promise<'new' | 'known' | 'left'> {
  if (stored === undefined) return 'new';
  const parsed = parseToken(token);
  const { certificate } = stored.authority;
  if (fingerprintOf(certificate) === parsed.fingerprint) return 'known';
  if (await isSuccessor(parsed, certificate, { signal: AbortSignal.timeout(joinMs), ...options })) return 'left';
  throw new FlynnError(
    'conflict',
    `this machine is a host of the cluster ${stored.name} already, and the token is for another one, or its authority was made anew more than once since: take it out first with ${commands.down}`,
  );
}

/** Of a host that was left behind: what the cluster is by now, and what this host keeps for itself. */
export async function rejoinCluster(
  token: string,
  stored: Cluster,
  { withoutWireguard, ...options }: { port?: number; withoutWireguard?: string | undefined } = {},
): Promise<Cluster> {
  const { hostId, site, subnet, hasPlatform } = stored;
  const address = site === undefined ? stored.address : stored.localAddress;
  const joining = {
    hostId,
    release: versionOfThis(),
    withoutWireguard,
    ...(address === undefined ? {} : { address }),
    // Told where it is looked at: hosts of a version before refuse the field, and are to say that versions differ.
    ...(site === undefined ? {} : { site, subnet }),
  };
  const cluster = await joinCluster(token, joining, options);
  if (cluster.subnet !== subnet) {
    throw new FlynnError(
      'conflict',
      `the cluster has taken this host for gone, and the addresses of its containers (${subnet}) may be others' by now: take it out first with ${commands.down}. Nothing was changed`,
    );
  }
  // Whom it trusted beside, and was about to, is of an authority of before; the cluster may have nothing in their place.
  const { alsoTrusted: _1, endorsement: _2, authorityRound: _3, authorityChange: _4, ...known } = stored;
  const { httpsPort: _5, networkBackend: _6, ...own } = known;
  return { ...own, ...cluster, hasPlatform };
}

/**
 * The cluster as this host is to know it. Asked again the answer is the same. `conflict` too where the host that answers does not
 * reach this one, and it did not say that it is behind NAT; and where the cluster is encrypted, and this machine has no WireGuard.
 */
export async function joinCluster(token: string, host: JoiningHost, options: { port?: number } = {}): Promise<Cluster> {
  await using door = host.site === undefined ? await openDoor() : undefined;
  const joining = { ...host, ...(door === undefined ? {} : { answersAt: door.port }) };
  const { settings, lease, endpoints, peers } = await askToJoin(parseToken(token), joining, {
    signal: AbortSignal.timeout(joinMs),
    ...options,
  });
  const { hostId, address, subnet, site } = lease;
  const shared = sharedSchema.parse(settings);
  return {
    ...shared,
    hostId,
    address,
    ...(site === undefined ? {} : { site }),
    ...(site === undefined || host.address === undefined ? {} : { localAddress: host.address }),
    subnet,
    etcdEndpoints: endpoints,
    peers,
    hasPlatform: false,
  };
}
