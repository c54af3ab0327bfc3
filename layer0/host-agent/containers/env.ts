/** Which environment does a job see? Base < host < job < what the agent alone knows. */
import type { HostJob } from '@flynn/scheduler/cell';
import type { Keyspace } from '@flynn/scheduler/job-template';
import { keyspacePort, keyspacePrefix } from '../keyspaces/keyspace.ts';
import { type JobIdentities, identityPath } from '../trust/job-identities.ts';

export type HostEnvironment = {
  hostId: string;
  externalAddress: string;
  gateway: string;
  /** Where etcd is at the moment, for jobs that have access to it. */
  storeEndpoints?: () => readonly string[];
  /** Where jobs of the platform have their certificates; without, they have none. */
  identities?: Pick<JobIdentities, 'folderOf' | 'issue'> | undefined;
};

const basePath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

export function environmentOf(job: Pick<HostJob, 'id' | 'template'>, host: HostEnvironment): Record<string, string> {
  const { template } = job;
  return {
    PATH: basePath,
    ...(template.tty ? { TERM: 'xterm' } : {}),
    FLYNN_HOST_ID: host.hostId,
    FLYNN_EXTERNAL_ADDRESS: host.externalAddress,
    FLYNN_DISCOVERY_URL: `http://${host.gateway}:1111`,
    ...(template.access.includes('store') ? { FLYNN_ETCD_ENDPOINTS: (host.storeEndpoints?.() ?? []).join(',') } : {}),
    ...template.env,
    ...(host.identities === undefined || template.identity === undefined ? {} : { FLYNN_IDENTITY_DIR: identityPath }),
    ...(template.keyspace === undefined ? {} : keyspaceEnvironment(template.keyspace, host)),
    ...portsOf(template.ports),
    FLYNN_JOB_ID: job.id,
    HOSTNAME: job.id,
  };
}

function keyspaceEnvironment({ name }: Keyspace, { gateway }: HostEnvironment): Record<string, string> {
  return {
    FLYNN_KEYSPACE_URL: `http://${gateway}:${keyspacePort}`,
    FLYNN_KEYSPACE_NAME: name,
    FLYNN_KEYSPACE_PREFIX: keyspacePrefix(name),
  };
}

function portsOf(ports: readonly { port: number }[]): Record<string, string> {
  const [first] = ports;
  if (first === undefined) return {};
  return {
    PORT: String(first.port),
    ...Object.fromEntries(ports.map(({ port }, index) => [`PORT_${index}`, String(port)])),
  };
}
