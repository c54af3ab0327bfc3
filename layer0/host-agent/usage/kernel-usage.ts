/** What a container uses, from the kernel's own files: control groups of version 1 or 2, whoever made them. */
import { readFileSync, readlinkSync } from 'node:fs';
import type { Usage } from '../engine/engine.ts';

/** Where the kernel's files are; tests have others. */
export type KernelFiles = Readonly<{ proc: string; controlGroups: string }>;

export const machineFiles: KernelFiles = { proc: '/proc', controlGroups: '/sys/fs/cgroup' };

/**
 * Undefined when the process is gone or is not of this container. These files are not on any disk: reading them at once takes
 * microseconds, and a tenth of what it costs to wait for them.
 */
export function readUsage(pid: number, containerId: string, files: KernelFiles = machineFiles): Usage | undefined {
  const groups = text(`${files.proc}/${pid}/cgroup`);
  if (groups === undefined || !groups.includes(containerId)) return undefined;
  const pathOf = (controller: string): string | undefined => pathIn(groups, controller, containerId);
  const read = pathOf('memory') === undefined ? readVersion2 : readVersion1;
  const usage = read(files.controlGroups, pathOf);
  if (usage === undefined) return undefined;
  const network = readNetwork(files.proc, pid);
  return { ...usage, ...(network === undefined ? {} : { network }) };
}

/** Whether the process runs and is one of the container's. */
export function isOf(pid: number, containerId: string, { proc }: KernelFiles = machineFiles): boolean {
  return text(`${proc}/${pid}/cgroup`)?.includes(containerId) === true;
}

/** The file that names the container's processes; undefined when this one is gone or is not of it. */
export function processesFile(pid: number, containerId: string, files: KernelFiles): string | undefined {
  const groups = text(`${files.proc}/${pid}/cgroup`);
  if (groups === undefined || !groups.includes(containerId)) return undefined;
  const [controller, path] = ['pids', 'memory']
    .map((name) => [`/${name}`, pathIn(groups, name, containerId)] as const)
    .find(([, one]) => one !== undefined) ?? ['', pathIn(groups, '', containerId)];
  return path === undefined ? undefined : `${files.controlGroups}${controller}${path}/cgroup.procs`;
}

/**
 * The container's own group, of `4:memory:/docker/<id>`; in version 2 `0::/system.slice/docker-<id>.scope`. Its first process
 * may have made groups of its own below and be in one of them.
 */
function pathIn(groups: string, controller: string, containerId: string): string | undefined {
  for (const line of groups.split('\n')) {
    const [, controllers = '', ...rest] = line.split(':');
    if (!controllers.split(',').includes(controller)) continue;
    const path = rest.join(':').split('/');
    const own = path.findIndex((name) => name.includes(containerId));
    return path.slice(0, own < 0 ? undefined : own + 1).join('/');
  }
  return undefined;
}

type PathOf = (controller: string) => string | undefined;

function readVersion1(root: string, pathOf: PathOf): Usage | undefined {
  const memory = `${root}/memory${pathOf('memory') ?? ''}`;
  const bytes = number(`${memory}/memory.usage_in_bytes`);
  const cpuNanoseconds = number(`${root}/cpuacct${pathOf('cpuacct') ?? ''}/cpuacct.usage`);
  if (bytes === undefined || cpuNanoseconds === undefined) return undefined;
  const cached = field(`${memory}/memory.stat`, 'total_inactive_file') ?? 0;
  const pids = number(`${root}/pids${pathOf('pids') ?? ''}/pids.current`) ?? 0;
  return { memoryBytes: Math.max(0, bytes - cached), cpuNanoseconds, pids };
}

function readVersion2(root: string, pathOf: PathOf): Usage | undefined {
  const folder = root + (pathOf('') ?? '');
  const bytes = number(`${folder}/memory.current`);
  const microseconds = field(`${folder}/cpu.stat`, 'usage_usec');
  if (bytes === undefined || microseconds === undefined) return undefined;
  const cached = field(`${folder}/memory.stat`, 'inactive_file') ?? 0;
  const pids = number(`${folder}/pids.current`) ?? 0;
  return { memoryBytes: Math.max(0, bytes - cached), cpuNanoseconds: microseconds * 1_000, pids };
}

function readNetwork(proc: string, pid: number): Usage['network'] {
  const lines = text(`${proc}/${pid}/net/dev`)?.split('\n').slice(2) ?? [];
  if (namespaceOf(proc, pid) === namespaceOf(proc, 'self') || lines.length === 0) return undefined;
  let receivedBytes = 0;
  let sentBytes = 0;
  for (const line of lines) {
    const [name = '', figures = ''] = line.split(':');
    if (name.trim() === 'lo') continue;
    const columns = figures.trim().split(/\s+/).map(Number);
    receivedBytes += columns[0] ?? 0;
    sentBytes += columns[8] ?? 0;
  }
  return { receivedBytes, sentBytes };
}

function namespaceOf(proc: string, pid: number | 'self'): string | undefined {
  try {
    return readlinkSync(`${proc}/${pid}/ns/net`);
  } catch {
    // The process is gone, which its other files tell as well.
    return undefined;
  }
}

function text(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    // No such process, or a kernel without this controller: either way there is no figure.
    return undefined;
  }
}

function number(file: string): number | undefined {
  const content = text(file);
  return content === undefined ? undefined : Number(content.trim());
}

function field(file: string, name: string): number | undefined {
  const line = text(file)
    ?.split('\n')
    .find((one) => one.startsWith(`${name} `));
  return line === undefined ? undefined : Number(line.slice(name.length + 1));
}
