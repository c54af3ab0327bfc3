/** Is there room left on the disks the host lives on? */
import { access, constants, stat, statfs } from 'node:fs/promises';
import { diskUseOf, inodesUsedPercent } from '../disk/use.ts';
import type { Found } from './finding.ts';

export type DiskRoom = Readonly<{
  /** What is on it: "the host's state and the engine's data". */
  holds: string;
  path: string;
  totalBytes: number;
  freeBytes: number;
  usedPercent: number;
  /** Undefined where the file system has no limit. */
  usedInodesPercent: number | undefined;
  isReadOnly: boolean;
}>;

/** As the cleaner has them: from `high` on it removes images, at `full` the host takes no more jobs. */
export const diskMarks = { high: 85, full: 95 } as const;

const why =
  'a full disk stops builds, deployments, logs and etcd, and with etcd everything; from 95 % on the host takes no jobs';

export function diskFindings(subject: string, disks: readonly DiskRoom[]): Found[] {
  return disks.flatMap((disk) => {
    const findings: Found[] = [];
    const remedy = `free some: "docker system df" and "du -xhd2 ${disk.path}" show what takes it, docs/operating.md what may go; or put it on a larger disk`;
    if (disk.isReadOnly) {
      findings.push({
        severity: 'critical',
        subject,
        matter: `read-only ${disk.path}`,
        what: `the disk of ${disk.holds} (${disk.path}) is mounted read-only`,
        why: 'nothing can be written there: mostly the kernel found errors on it',
        remedy: 'look at "dmesg | tail", check the disk, then mount it writable and restart the host',
      });
    }
    if (disk.usedPercent >= diskMarks.high) {
      findings.push({
        severity: disk.usedPercent >= diskMarks.full ? 'critical' : 'warning',
        subject,
        matter: `room ${disk.path}`,
        what: `the disk of ${disk.holds} (${disk.path}) is ${disk.usedPercent} % full: ${sizeOf(disk.freeBytes)} left`,
        why,
        remedy,
      });
    }
    const { usedInodesPercent = 0 } = disk;
    if (usedInodesPercent >= diskMarks.high) {
      findings.push({
        severity: usedInodesPercent >= diskMarks.full ? 'critical' : 'warning',
        subject,
        matter: `inodes ${disk.path}`,
        what: `the disk of ${disk.holds} (${disk.path}) has used ${usedInodesPercent} % of its inodes`,
        why: 'no file can be made once they are used up, however much room is left',
        remedy: `find where the many small files are: du --inodes -xd2 ${disk.path}`,
      });
    }
    return findings;
  });
}

function sizeOf(bytes: number): string {
  return bytes >= 1e9 ? `${(bytes / 1e9).toFixed(1)} GB` : `${Math.round(bytes / 1e6)} MB`;
}

/** Places on one file system are one disk; one that is not there is left out. */
export async function readDisks(places: readonly { holds: string; path: string }[]): Promise<DiskRoom[]> {
  const byDevice = new Map<number, { holds: string[]; path: string }>();
  for (const { holds, path } of places) {
    const device = await deviceOf(path);
    if (device === undefined) continue;
    const known = byDevice.get(device);
    if (known === undefined) byDevice.set(device, { holds: [holds], path });
    else known.holds.push(holds);
  }
  return Promise.all([...byDevice.values()].map(async ({ holds, path }) => roomAt(path, holds.join(', '))));
}

async function deviceOf(path: string): Promise<number | undefined> {
  try {
    return (await stat(path)).dev;
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

async function roomAt(path: string, holds: string): Promise<DiskRoom> {
  const room = await statfs(path);
  const { totalBytes, freeBytes, usedPercent } = diskUseOf(room);
  return {
    holds,
    path,
    totalBytes,
    freeBytes,
    usedPercent,
    usedInodesPercent: inodesUsedPercent(room),
    isReadOnly: await isReadOnly(path),
  };
}

async function isReadOnly(path: string): Promise<boolean> {
  try {
    await access(path, constants.W_OK);
    return false;
  } catch (error) {
    return codeOf(error) === 'EROFS';
  }
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}
