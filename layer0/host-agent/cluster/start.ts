/** The host's part in a cluster of several: where etcd is, who is a member of it, letting others in, sharing images. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { systemClock } from '@flynn/kit/clock';
import { FlynnError } from '@flynn/kit/errors';
import { readJsonFile } from '@flynn/kit/files';
import type { ServerOptions } from '@flynn/kit/http-server';
import type { Logger } from '@flynn/kit/log';
import { withDeadline } from '@flynn/kit/retry';
import { forever } from '@flynn/kit/tasks';
import type { TaskGroup } from '@flynn/kit/tasks';
import { cellKeys, hostRecordSchema } from '@flynn/scheduler/cell';
import type { HostRecord } from '@flynn/scheduler/cell';
import { connectEtcd } from '@flynn/store/etcd';
import type { EtcdClient, EtcdOptions } from '@flynn/store/etcd';
import type { EtcdTls } from '@flynn/store/etcd-members';
import { etcdMembership } from '@flynn/store/etcd-membership';
import { defragmentEtcd, etcdStatus, leads } from '@flynn/store/etcd-status';
import { openMirror } from '@flynn/store/mirror';
import type { Mirror } from '@flynn/store/mirror';
import { SealedEtcd } from '@flynn/store/sealing/sealed-store';
import type { AgentPlace } from '../agent-client.ts';
import type { Config } from '../config.ts';
import type { Engine } from '../engine/engine.ts';
import { untilThere } from '../hosts/record.ts';
import { admissionFile } from '../trust/authorities.ts';
import type { HostTrust } from '../trust/host-trust.ts';
import { certificateFault } from './certificate-age.ts';
import { clientUrlOf, etcdQuotaBytes } from './etcd-resident.ts';
import { keepRoom } from './etcd-room.ts';
import type { EtcdRoom } from './etcd-room.ts';
import { type Admission, admissionSchema, startJoinServer } from './join-server.ts';
import { tellOwnAddress } from './own-address.ts';
import { removeMemberData } from './member-data.ts';
import { knownEndpoints, startMembership } from './membership.ts';
import { readSealingKeys } from './sealing-keys.ts';

const agentPort = 1113;
/** Members that answer do so at once. */
const memberMs = 5_000;

/** Where this host's certificate for etcd is. */
export type TlsConfig = Pick<Config, 'FLYNN_ETCD_CA_FILE' | 'FLYNN_ETCD_CERT_FILE' | 'FLYNN_ETCD_KEY_FILE'>;

export async function readTls(config: TlsConfig): Promise<EtcdTls | undefined> {
  const { FLYNN_ETCD_CA_FILE: ca, FLYNN_ETCD_CERT_FILE: certificate, FLYNN_ETCD_KEY_FILE: key } = config;
  if (ca === undefined && certificate === undefined && key === undefined) return undefined;
  if (ca === undefined || certificate === undefined || key === undefined) {
    throw new FlynnError('invalid', 'FLYNN_ETCD_CA_FILE, FLYNN_ETCD_CERT_FILE and FLYNN_ETCD_KEY_FILE belong together');
  }
  const [authority, own, privateKey] = await Promise.all([ca, certificate, key].map((file) => readFile(file, 'utf8')));
  return { ca: authority ?? '', certificate: own ?? '', privateKey: privateKey ?? '' };
}

/** The store at the members this host knew last. */
export async function connectStore(
  config: Config,
  options: { log: Logger; onCall?: EtcdOptions['onCall']; trust?: HostTrust | undefined },
): Promise<{ store: EtcdClient; tls?: EtcdTls }> {
  const { log, onCall, trust } = options;
  const read = await readTls(config);
  const tls = read === undefined || trust === undefined ? read : renewedTls(trust);
  const endpoints = await knownEndpoints(config.FLYNN_STATE_DIR, config.FLYNN_ETCD_ENDPOINTS);
  const told = onCall === undefined ? {} : { onCall };
  const raw = connectEtcd({ endpoints, log, ...told, ...(tls === undefined ? {} : { tls }) });
  const store = new SealedEtcd(raw, { sealingKeys: () => readSealingKeys(config.FLYNN_STATE_DIR), log });
  trust?.identity.onChange(() => raw.renewTls());
  return tls === undefined ? { store } : { store, tls };
}

/**
 * What the host is known by at the moment, and whom it takes for etcd. etcd itself reads its certificate's files at every
 * handshake, and whom it trusts when it starts.
 */
function renewedTls(trust: HostTrust): EtcdTls {
  return {
    get ca() {
      return trust.hostAuthorities;
    },
    get certificate() {
      return trust.identity.current.certificate;
    },
    get privateKey() {
      return trust.identity.current.privateKey;
    },
  };
}

/** For those that do not know the authority yet: they look at it, and compare it with their token. */
function chainOf(trust: HostTrust): NonNullable<ServerOptions['tls']> {
  return {
    get current() {
      const { certificate, privateKey } = trust.identity.current;
      return { certificate: certificate + trust.shown, privateKey };
    },
    onChange: (listener) => trust.identity.onChange(listener),
  };
}

/** Other hosts' agents: those configured, until the store tells of them. */
export class Peers {
  readonly #config: Config;
  #hosts: Mirror<HostRecord> | undefined;

  constructor(config: Config) {
    this.#config = config;
  }

  async follow(options: { store: EtcdClient; log: Logger; signal: AbortSignal }): Promise<void> {
    const decode = (json: unknown): HostRecord => hostRecordSchema.parse(json);
    this.#hosts = await openMirror({ ...options, prefix: cellKeys.hosts, decode });
  }

  /** As the store told of them last, this host among them. */
  records(): HostRecord[] {
    return [...(this.#hosts?.snapshot.entries.values() ?? [])].map(({ value }) => value);
  }

  addresses(): string[] {
    return this.others().map(({ address }) => address);
  }

  /** Of those configured only the addresses are known: whichever hosts they are, they have to prove that they are hosts. */
  others(): AgentPlace[] {
    if (this.#hosts !== undefined) return this.records().filter(({ id }) => !this.#isOwn(id));
    const unknown = { id: '', apiPort: agentPort, mutual: { withoutIdentity: 0 } };
    return this.#config.FLYNN_PEERS.map((address) => ({ ...unknown, address }));
  }

  #isOwn(hostId: string): boolean {
    return hostId === this.#config.FLYNN_HOST_ID;
  }
}

export type ClusterDeps = {
  config: Config;
  engine: Engine;
  store: EtcdClient;
  tls: EtcdTls | undefined;
  peers: Peers;
  trust: HostTrust | undefined;
  hasLostData: () => boolean;
  log: Logger;
};

/** Where etcd has no certificates there is but one host: nobody can join and its member is run by whoever set it up. */
export async function startCluster(
  { config, engine, store, tls, peers, trust, hasLostData, log }: ClusterDeps,
  tasks: TaskGroup,
): Promise<void> {
  const { signal } = tasks;
  await peers.follow({ store, log, signal });
  if (tls === undefined) return;
  const fault = certificateFault(tls.certificate, systemClock.now());
  if (fault !== undefined) log.warn(`this host: ${fault}`);
  const { FLYNN_CLUSTER: cluster, FLYNN_HOST_ID: hostId, FLYNN_STATE_DIR: stateDir, FLYNN_ADDRESS: address } = config;
  await untilThere('the store', () => tellOwnAddress(store, { hostId, address }, { log, tasks }), { signal, log });
  await startMembership(
    {
      cluster,
      hostId,
      stateDir,
      store,
      openMembership: () => etcdMembership({ endpoints: () => store.endpoints, tls }),
      hasLostData,
      removeOldData: async (kept, s) => await removeMemberData(engine, { cluster, kept, signal: s }),
      log,
    },
    tasks,
  );
  const quotaBytes = (): Promise<number> => etcdQuotaBytes(stateDir);
  const room = roomOf({ store, tls, own: clientUrlOf(address), quotaBytes });
  tasks.run('room in etcd', (s) =>
    forever('room in etcd', (limit) => keepRoom(room, { log, signal: limit, clock: systemClock }), { signal: s, log }),
  );
  const readAdmission = (): Promise<Admission | undefined> =>
    readJsonFile(join(stateDir, admissionFile), admissionSchema);
  const admission = await readAdmission();
  if (admission === undefined) return;
  await startJoinServer({
    admission,
    current: async () => (await readAdmission()) ?? admission,
    sealingKeys: () => readSealingKeys(stateDir),
    ...(trust === undefined ? {} : { shown: chainOf(trust) }),
    address,
    store,
    endpoints: () => store.endpoints,
    peers: () => [address, ...peers.addresses()],
    now: () => systemClock.now(),
    log,
    signal,
  });
}

/** `own`: where this host's member is, if it has one. */
export function roomOf({
  store,
  tls,
  own,
  quotaBytes,
}: {
  store: EtcdClient;
  tls: EtcdTls | undefined;
  own: string;
  quotaBytes: EtcdRoom['quotaBytes'];
}): EtcdRoom {
  const access = tls === undefined ? {} : { tls };
  return {
    quotaBytes,
    async status(signal) {
      const { endpoints } = store;
      if (!endpoints.includes(own)) return { members: [], alarms: [] };
      const alone = await etcdStatus({ ...access, endpoints: [own], signal });
      if (!alone.members.some(leads)) return alone;
      // One that is away is none of those that fill up.
      const limited = withDeadline(memberMs, signal);
      return etcdStatus({ ...access, endpoints: [own, ...endpoints.filter((one) => one !== own)], signal: limited });
    },
    async revision(signal) {
      return (await store.list(cellKeys.hosts, { signal })).revision;
    },
    async hosts(signal) {
      return (await store.list(cellKeys.hosts, { signal })).entries.length;
    },
    async compact(revision, signal) {
      await store.compact(revision, { signal });
    },
    async defragment(signal) {
      return await defragmentEtcd({ ...access, endpoints: store.endpoints, signal, onMember: () => undefined });
    },
  };
}
