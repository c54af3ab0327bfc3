/** Where a schedule has its backups, as a target. */
import { S3Client } from '@flynn/blobstore/s3/client';
import type { HostClients } from '../hosts/clients.ts';
import type { S3Place, TargetAddress } from './model.ts';
import type { BackupTarget } from './target.ts';

/** `patienceMs`: how long a service that does not answer is asked again; default ten minutes. */
export function targetAt(
  hosts: Pick<HostClients, 'backups'>,
  to: TargetAddress,
  options: { patienceMs?: number } = {},
): BackupTarget {
  return 's3' in to ? bucketTarget(to.s3, options) : hosts.backups(to.host, to.directory, to.mount);
}

/** The service compares what it gets with its digest before it takes it, and shows nothing that is not whole. */
function bucketTarget(
  { prefix, accessKeyId, secret, ...bucket }: S3Place,
  options: { patienceMs?: number },
): BackupTarget {
  const folder = prefix === '' ? '' : `${prefix.replace(/\/+$/, '')}/`;
  const client = new S3Client(bucket, { accessKeyId, secretAccessKey: secret }, { ...options, folder });
  return {
    put: (name, body, signal) => client.upload(name, body, signal),
    async clear(beginning, signal) {
      await client.abortUploads(beginning, { signal });
    },
    async list(beginning, signal) {
      const objects = await client.list(beginning, signal);
      return objects.map(({ key }) => key).filter((name) => !name.includes('/'));
    },
    remove: (name, signal) => client.remove(name, signal),
  };
}
