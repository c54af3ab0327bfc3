/** Is the machine about to run out of what the kernel counts: files, connections it tracks, watches, processes, memory? */
import { readFile, readdir, readlink } from 'node:fs/promises';
import { hasErrno } from '@flynn/kit/errors';
import type { Found } from './finding.ts';

type Counted = Readonly<{ used: number; limit: number }>;

export type KernelCounts = Readonly<{
  files: Counted;
  /** Undefined while nothing tracks connections. */
  connections: Counted | undefined;
  /** Of root, who is root in containers as well. */
  inotifyInstances: Counted;
  threads: Counted;
  memory: Readonly<{ totalBytes: number; availableBytes: number; stalledPercent: number | undefined }>;
}>;

const marks = { warning: 80, critical: 95 } as const;
const lowMemoryPercent = 5;
/** Of the last minute, in which some process waited for memory. */
const stalledMark = { warning: 10, critical: 40 } as const;

const counted = [
  {
    name: 'files',
    what: 'open files of the machine',
    why: 'beyond it nothing can open a file or a connection, the platform included',
    sysctl: 'fs.file-max',
  },
  {
    name: 'connections',
    what: 'connections the kernel tracks',
    why: 'beyond it packets of new connections are dropped: requests time out without a trace',
    sysctl: 'net.netfilter.nf_conntrack_max',
  },
  {
    name: 'inotifyInstances',
    what: 'inotify instances of root',
    why: 'beyond it programs that watch files do not start: "too many open files"',
    sysctl: 'fs.inotify.max_user_instances',
  },
  {
    name: 'threads',
    what: 'processes and threads',
    why: 'beyond it nothing can be started, not even a shell to look',
    sysctl: 'kernel.threads-max',
  },
] as const;

/** Who has begun most connections: `isHeld`, and begins no more for the moment. */
export type Crowding = Readonly<{ name: string; jobId: string; count: number; isHeld: boolean }>;

export function limitFindings(subject: string, counts: KernelCounts, crowding?: Crowding): Found[] {
  const findings = counted.flatMap(({ name, what, why, sysctl }): Found[] => {
    const { used, limit } = counts[name] ?? { used: 0, limit: 0 };
    const percent = limit === 0 ? 0 : (used / limit) * 100;
    if (percent < marks.warning) return [];
    return [
      {
        severity: percent >= marks.critical ? 'critical' : 'warning',
        subject,
        matter: name,
        what: `${used} of ${limit} ${what} are in use${name === 'connections' ? crowdText(crowding) : ''}`,
        why,
        remedy: `${name === 'connections' ? crowdRemedy(crowding) : ''}sysctl -w ${sysctl}=${limit * 4}, and the same line in /etc/sysctl.d/ for the next boot`,
      },
    ];
  });
  return [...findings, ...memoryFindings(subject, counts.memory)];
}

function crowdText(crowding: Crowding | undefined): string {
  if (crowding === undefined) return '';
  const { name, count, isHeld } = crowding;
  const held = isHeld ? ', and is refused more until they are fewer than half of what there may be' : '';
  return `; the container ${name} has begun ${count} of them${held}`;
}

function crowdRemedy(crowding: Crowding | undefined): string {
  if (crowding === undefined) return '';
  return `see what it does (flynn-host log ${crowding.jobId} there), and where it is to have so many: `;
}

function memoryFindings(
  subject: string,
  { totalBytes, availableBytes, stalledPercent = 0 }: KernelCounts['memory'],
): Found[] {
  const left = (availableBytes / totalBytes) * 100;
  const isStalled = stalledPercent >= stalledMark.warning;
  if (left >= lowMemoryPercent && !isStalled) return [];
  const stalls = isStalled ? `; of the last minute ${Math.round(stalledPercent)} % went by waiting for it` : '';
  return [
    {
      severity: stalledPercent >= stalledMark.critical ? 'critical' : 'warning',
      subject,
      matter: 'memory',
      what: `${left.toFixed(1)} % of its memory is left${stalls}`,
      why: 'everything on the host gets slow, and soon the kernel kills what is largest',
      remedy: '"flynn-host stats" shows who takes it; scale that down, give it a limit, or add a host',
    },
  ];
}

/** A kernel built without it (pressure, connection tracking) has no such file, or one that cannot be read: `EOPNOTSUPP`. */
async function read(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (hasErrno(error, 'ENOENT', 'EOPNOTSUPP')) return undefined;
    throw error;
  }
}

/** `inotifyInstances`: counting them takes its time, so who asks often gives what was counted before. */
export async function readKernelCounts(inotifyInstances: number): Promise<KernelCounts> {
  const [files, count, max, instances, threads, load, memory, pressure] = await Promise.all([
    read('/proc/sys/fs/file-nr'),
    read('/proc/sys/net/netfilter/nf_conntrack_count'),
    read('/proc/sys/net/netfilter/nf_conntrack_max'),
    read('/proc/sys/fs/inotify/max_user_instances'),
    read('/proc/sys/kernel/threads-max'),
    read('/proc/loadavg'),
    read('/proc/meminfo'),
    read('/proc/pressure/memory'),
  ]);
  return {
    ...parseKernelCounts({ files, count, max, threads, load, memory, pressure }),
    inotifyInstances: { used: inotifyInstances, limit: Number(instances ?? 0) },
  };
}

type KernelTexts = Readonly<
  Record<'files' | 'count' | 'max' | 'threads' | 'load' | 'memory' | 'pressure', string | undefined>
>;

export function parseKernelCounts(texts: KernelTexts): Omit<KernelCounts, 'inotifyInstances'> {
  const [used = '0', , limit = '0'] = (texts.files ?? '').trim().split(/\s+/);
  const kilobytes = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(texts.memory ?? '')?.[1] ?? 0);
  const stalled = /^some .*avg60=([\d.]+)/m.exec(texts.pressure ?? '')?.[1];
  return {
    files: { used: Number(used), limit: Number(limit) },
    connections: texts.count === undefined ? undefined : { used: Number(texts.count), limit: Number(texts.max ?? 0) },
    threads: { used: Number(/\/(\d+)/.exec(texts.load ?? '')?.[1] ?? 0), limit: Number(texts.threads ?? 0) },
    memory: {
      totalBytes: kilobytes('MemTotal') * 1024,
      availableBytes: kilobytes('MemAvailable') * 1024,
      stalledPercent: stalled === undefined ? undefined : Number(stalled),
    },
  };
}

/** A look at every descriptor: bounded, for a host of thousands of containers. */
const mostDescriptors = 50_000;

export async function countInotify(): Promise<number> {
  let instances = 0;
  let seen = 0;
  for (const process of await readdir('/proc')) {
    if (!/^\d+$/.test(process) || seen >= mostDescriptors) continue;
    const folder = `/proc/${process}/fd`;
    // Processes end while they are looked at.
    const descriptors = await readdir(folder).catch(() => []);
    seen += descriptors.length;
    const links = await Promise.all(descriptors.map((one) => readlink(`${folder}/${one}`).catch(() => '')));
    instances += links.filter((link) => link === 'anon_inode:inotify').length;
  }
  return instances;
}
