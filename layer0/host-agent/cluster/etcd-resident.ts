/** The etcd member of a host, as a job the agent runs without being told by the store. */
import { join } from 'node:path';
import { readJsonFile } from '@flynn/kit/files';
import { z } from 'zod';
import type { ResidentInput } from '../jobs/resident.ts';

export const etcdPorts = { client: 2379, peer: 2380 } as const;

/** As a resident job. */
export const etcdJob = 'etcd';

/** In the state directory: the authority's certificate, the host's own and its key. */
export const tlsFiles = {
  authority: 'tls/authority.pem',
  certificate: 'tls/host.pem',
  key: 'tls/host-key.pem',
} as const;

/** How the host's member is run; there is none where it has none. */
export const residentFile = (stateDir: string): string => join(stateDir, 'resident', 'etcd.json');

export const clientUrlOf = (address: string): string => `https://${address}:${etcdPorts.client}`;
export const peerUrlOf = (address: string): string => `https://${address}:${etcdPorts.peer}`;

const mebibyte = 1024 ** 2;

/** As large as a member's database may get; beyond it takes no more writes. */
const quotaBytes = 2048 * mebibyte;
const quotaFlag = 'quota-backend-bytes';

const commandSchema = z.object({ template: z.object({ command: z.array(z.string()) }) });

/** Of the member that runs on the host, whichever version wrote down how; what all have where there is none. */
export async function etcdQuotaBytes(stateDir: string): Promise<number> {
  const resident = await readJsonFile(residentFile(stateDir), commandSchema);
  const start = `--${quotaFlag}=`;
  const word = resident?.template.command.find((one) => one.startsWith(start));
  return word === undefined ? quotaBytes : Number(word.slice(start.length));
}

export type EtcdMemberOptions = {
  cluster: string;
  hostId: string;
  address: string;
  image: string;
  stateDir: string;
  /** `name=peerUrl,…` of all members, for one that joins; a first member starts a cluster of its own. */
  initialCluster?: string;
  /** As etcd knows it; a host that becomes a member again is another, with data of its own. */
  memberId?: string;
  /** Of the authorities that the member reads when it starts: see `member-trust.ts`. */
  trusted?: string;
};

/** By which it is known which authorities a member has read. */
export const trustedLabel = 'flynn.trusted';

const trustedSchema = z.looseObject({
  template: z.looseObject({ meta: z.record(z.string(), z.string()).optional() }),
});
export type StoredResident = z.output<typeof trustedSchema>;

/** As it is on the disk, whichever version wrote it; undefined where the host has no member. */
export async function readResident(stateDir: string): Promise<StoredResident | undefined> {
  return readJsonFile(residentFile(stateDir), trustedSchema);
}

/** Undefined of a member that was started before its cluster's authority was ever made anew. */
export function trustedBy({ template }: StoredResident): string | undefined {
  return template.meta?.[trustedLabel];
}

export function withTrusted(resident: StoredResident, trusted: string): StoredResident {
  const { template } = resident;
  return { ...resident, template: { ...template, meta: { ...template.meta, [trustedLabel]: trusted } } };
}

export const etcdVolume = (memberId: string | undefined): string =>
  memberId === undefined ? 'etcd' : `etcd-${memberId}`;

/** Ids are etcd's numbers, or of a recovery. Volumes of jobs may begin alike. */
const memberVolume = /^etcd(?:-(?:\d+|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}))?$/;

export const isEtcdVolume = (name: string): boolean => memberVolume.test(name);

/**
 * It listens on every address, so that a host whose address changes still has its store; without a certificate of the
 * cluster's authority nobody gets in, and containers are kept from it by the network's rules.
 */
export function etcdResident(options: EtcdMemberOptions): ResidentInput {
  const { cluster, hostId, address, initialCluster } = options;
  const tls = { ca: '/tls/authority.pem', certificate: '/tls/host.pem', key: '/tls/host-key.pem' };
  const flags = {
    name: hostId,
    'data-dir': '/data',
    'listen-client-urls': clientUrlOf('0.0.0.0'),
    'advertise-client-urls': clientUrlOf(address),
    'listen-peer-urls': peerUrlOf('0.0.0.0'),
    'initial-advertise-peer-urls': peerUrlOf(address),
    'initial-cluster': initialCluster ?? `${hostId}=${peerUrlOf(address)}`,
    'initial-cluster-state': initialCluster === undefined ? 'new' : 'existing',
    'initial-cluster-token': cluster,
    'cert-file': tls.certificate,
    'key-file': tls.key,
    'trusted-ca-file': tls.ca,
    'client-cert-auth': 'true',
    'peer-cert-file': tls.certificate,
    'peer-key-file': tls.key,
    'peer-trusted-ca-file': tls.ca,
    'peer-client-cert-auth': 'true',
    // Watchers that were away longer than this list anew.
    'auto-compaction-mode': 'periodic',
    'auto-compaction-retention': '30m',
    [quotaFlag]: String(quotaBytes),
    // Writes are kept in memory, whole: those since the last snapshot, and as many before it for members that are behind. By
    // default up to 105,000 are, which is most of what an idle etcd takes; a snapshot costs nothing that shows. A member that
    // lacks more than these is sent all that is stored instead: not one that only missed seconds of a busy cluster.
    'snapshot-count': '2500',
    'experimental-snapshot-catchup-entries': '2500',
    'max-txn-ops': '1024',
    'max-request-bytes': String(8 * mebibyte),
    // A member that lost its connection must not make the others elect anew when it is back.
    'pre-vote': 'true',
    // Whose data differs from that of the others is found out each time history is dropped.
    'experimental-compact-hash-check-enabled': 'true',
    'log-level': 'warn',
  };
  return {
    name: etcdJob,
    template: {
      image: { name: options.image },
      command: Object.entries(flags).map(([name, value]) => `--${name}=${value}`),
      volumes: [{ name: etcdVolume(options.memberId), path: '/data' }],
      hostNetwork: true,
      ...(options.trusted === undefined ? {} : { meta: { [trustedLabel]: options.trusted } }),
      resources: { memoryBytes: 768 * mebibyte, cpuMillis: 500 },
      // Its weight beside the jobs of the host: an election that busy apps delay costs every app of the cluster.
      limits: { memoryBytes: 768 * mebibyte, cpuMillis: 8_000 },
      env: { GOMEMLIMIT: `${384 * mebibyte}` },
    },
    binds: [{ source: join(options.stateDir, 'tls'), path: '/tls', isReadOnly: true }],
  };
}
