/** Is there room on this machine for what a backup has? Asked before anything is made: it would show after hours. Pure. */
import type { Inspection } from '@flynn/controller/backup/inspection';
import { type Facts, type Problem, minDiskBytes, sizeOf } from '../machine/preflight.ts';

type Machine = Pick<Facts, 'disks' | 'isHost'>;

/** Blobs are the most of one. Of a restore that is gone on with some of them are here already. */
export function judgeRoom(
  { disks, isHost }: Machine,
  { platform, sizeBytes }: Pick<Inspection, 'platform' | 'sizeBytes'>,
): Problem[] {
  const { BLOB_S3_URL: bucket, BLOB_KEEP_ON: place = 's3' } = platform.apps['blobstore']?.env ?? {};
  // The engine's, where volumes are.
  const disk = disks.at(-1);
  if (isHost || disk === undefined || (bucket !== undefined && place === 's3')) return [];
  const neededBytes = minDiskBytes + sizeBytes;
  if (disk.freeBytes >= neededBytes) return [];
  return [
    {
      what: `${sizeOf(disk.freeBytes)} free at ${disk.path}; what is in the backup takes ${sizeOf(sizeBytes)}, and a cluster needs ${sizeOf(minDiskBytes)} beside it`,
      remedy: 'free some space, or put the directory on a larger disk',
    },
  ];
}
