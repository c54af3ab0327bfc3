/** What containers on Docker use, read from the kernel where the engine need not be asked. */
import { readFileSync, readlinkSync } from 'node:fs';
import type { CallOptions, DiskUse, Usage } from './engine.ts';
import type { DockerContext } from './docker-containers.ts';
import { engineCall } from './docker-errors.ts';
import { z } from 'zod';
import { Shell, quoted } from './shell.ts';

const controlGroups = '/sys/fs/cgroup';
const diskDeadlineMs = 120_000;

const graphDriverSchema = z.object({ GraphDriver: z.object({ Data: z.record(z.string(), z.string()) }) });

type Paths = { upperDir: string | undefined; volumes: string[] };

/** Remembers what never changes: of a run its first process, of a container where its files are. */
export class DockerUsage {
  readonly #context: DockerContext;
  readonly #pids = new Map<string, number>();
  readonly #paths = new Map<string, Paths>();
  readonly #shell = new Shell();

  constructor(context: DockerContext) {
    this.#context = context;
  }

  async usage(id: string, options: CallOptions): Promise<Usage> {
    const known = this.#pids.get(id);
    if (known !== undefined) {
      const usage = readUsage(known, id);
      if (usage !== undefined) return usage;
    }
    const { State: state } = await this.#inspect(id, options);
    if (!state.Running) return { memoryBytes: 0, cpuNanoseconds: 0, pids: 0 };
    this.#pids.set(id, state.Pid);
    return readUsage(state.Pid, id) ?? this.#usageByEngine(id, options);
  }

  forget(id: string): void {
    this.#pids.delete(id);
    this.#paths.delete(id);
  }

  async diskUse(id: string, options: CallOptions): Promise<DiskUse> {
    const { upperDir, volumes } = await this.#pathsOf(id, options);
    const writable = upperDir === undefined ? undefined : await this.#bytesBelow([upperDir], options);
    return {
      writableBytes: writable ?? (await this.#writableByEngine(id, options)),
      volumeBytes: (await this.#bytesBelow(volumes, options)) ?? 0,
    };
  }

  async #pathsOf(id: string, options: CallOptions): Promise<Paths> {
    const known = this.#paths.get(id);
    if (known !== undefined) return known;
    const info = await this.#inspect(id, options);
    // Engines whose images are containerd's say nothing of it, or not where.
    const data = graphDriverSchema.safeParse(info).data?.GraphDriver.Data ?? {};
    const volumes = info.Mounts.filter(({ Type }) => Type === 'volume').map(({ Source }) => Source);
    const paths = { upperDir: data['UpperDir'], volumes };
    this.#paths.set(id, paths);
    return paths;
  }

  #inspect(id: string, options: CallOptions) {
    return engineCall(
      `looking at container ${id}`,
      (abortSignal) => this.#context.docker.getContainer(id).inspect({ abortSignal }),
      options,
    );
  }

  async #usageByEngine(id: string, options: CallOptions): Promise<Usage> {
    const stats = await engineCall(
      `measuring container ${id}`,
      (abortSignal) => {
        const request = { stream: false as const, 'one-shot': true, abortSignal };
        return this.#context.docker.getContainer(id).stats(request);
      },
      options,
    );
    return {
      memoryBytes: stats.memory_stats.usage ?? 0,
      cpuNanoseconds: stats.cpu_stats.cpu_usage.total_usage,
      pids: stats.pids_stats?.current ?? 0,
    };
  }

  /** In the background's background. Files that vanish meanwhile are left out; undefined if a folder is not to be seen from here. */
  async #bytesBelow(folders: readonly string[], { signal }: CallOptions): Promise<number | undefined> {
    if (folders.length === 0) return undefined;
    // Its exit code tells of files that went while it looked; what it could add up it says all the same.
    const script = `nice -n 19 du -skx -- ${folders.map(quoted).join(' ')}; true`;
    const output = await this.#shell.run(script, {
      deadlineMs: diskDeadlineMs,
      ...(signal === undefined ? {} : { signal }),
    });
    const lines = output.split('\n').filter((line) => /^\d+\t/.test(line));
    if (lines.length < folders.length) return undefined;
    return lines.reduce((sum, line) => sum + Number.parseInt(line, 10) * 1024, 0);
  }

  /** For storage drivers other than overlay2. */
  async #writableByEngine(id: string, options: CallOptions): Promise<number> {
    const info = await engineCall(
      `measuring the files of container ${id}`,
      (abortSignal) => {
        const request = { size: true, abortSignal };
        return this.#context.docker.getContainer(id).inspect(request);
      },
      { ...options, deadlineMs: diskDeadlineMs },
    );
    return 'SizeRw' in info && typeof info.SizeRw === 'number' ? info.SizeRw : 0;
  }
}

/**
 * Undefined when the process is gone or is not of this container. These files are not on any disk: reading them at once takes
 * microseconds, and a tenth of what it costs to wait for them.
 */
export function readUsage(pid: number, containerId: string): Usage | undefined {
  const groups = text(`/proc/${pid}/cgroup`);
  if (groups === undefined || !groups.includes(containerId)) return undefined;
  const usage = pathOf(groups, 'memory') === undefined ? readVersion2(groups) : readVersion1(groups);
  if (usage === undefined) return undefined;
  const network = readNetwork(pid);
  return { ...usage, ...(network === undefined ? {} : { network }) };
}

/** `4:memory:/docker/<id>`; in version 2 `0::/docker/<id>`. */
function pathOf(groups: string, controller: string): string | undefined {
  for (const line of groups.split('\n')) {
    const [, controllers = '', ...path] = line.split(':');
    if (controllers.split(',').includes(controller)) return path.join(':');
  }
  return undefined;
}

function readVersion1(groups: string): Usage | undefined {
  const memory = `${controlGroups}/memory${pathOf(groups, 'memory') ?? ''}`;
  const bytes = number(`${memory}/memory.usage_in_bytes`);
  const cpuNanoseconds = number(`${controlGroups}/cpuacct${pathOf(groups, 'cpuacct') ?? ''}/cpuacct.usage`);
  if (bytes === undefined || cpuNanoseconds === undefined) return undefined;
  const cached = field(`${memory}/memory.stat`, 'total_inactive_file') ?? 0;
  const pids = number(`${controlGroups}/pids${pathOf(groups, 'pids') ?? ''}/pids.current`) ?? 0;
  return { memoryBytes: Math.max(0, bytes - cached), cpuNanoseconds, pids };
}

function readVersion2(groups: string): Usage | undefined {
  const folder = controlGroups + (pathOf(groups, '') ?? '');
  const bytes = number(`${folder}/memory.current`);
  const microseconds = field(`${folder}/cpu.stat`, 'usage_usec');
  if (bytes === undefined || microseconds === undefined) return undefined;
  const cached = field(`${folder}/memory.stat`, 'inactive_file') ?? 0;
  const pids = number(`${folder}/pids.current`) ?? 0;
  return { memoryBytes: Math.max(0, bytes - cached), cpuNanoseconds: microseconds * 1_000, pids };
}

function readNetwork(pid: number): Usage['network'] {
  const lines = text(`/proc/${pid}/net/dev`)?.split('\n').slice(2) ?? [];
  if (namespaceOf(pid) === namespaceOf('self') || lines.length === 0) return undefined;
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

function namespaceOf(pid: number | 'self'): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/ns/net`);
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
