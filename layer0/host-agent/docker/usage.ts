/** What containers on Docker use, read from the kernel where the engine need not be asked. */
import type { CallOptions, DiskUse, Usage } from '../engine/engine.ts';
import type { DockerContext } from './containers.ts';
import { engineCall } from './errors.ts';
import { volumeName } from '../engine/labels.ts';
import { deletedBytes } from '../usage/deleted-files.ts';
import { isOf, readUsage } from '../usage/kernel-usage.ts';
import { z } from 'zod';
import { Shell, quoted } from '../shell.ts';

const diskDeadlineMs = 120_000;

const graphDriverSchema = z.object({ GraphDriver: z.object({ Data: z.record(z.string(), z.string()) }) });

/** Files of the engine's in the container's folder, which root in the container may write. An engine may not say of them. */
const enginesFile = z.string().default('');
const enginesFilesSchema = z.object({ HostsPath: enginesFile, HostnamePath: enginesFile, ResolvConfPath: enginesFile });

/** `beside`: what goes with the container too, and may be written by it. */
type Paths = { upperDir: string | undefined; beside: string[]; volumes: string[] };

type Files = Readonly<{ bytes: number; count: number }>;

/** Blocks and files of each starting point. Large numbers are written out: some awks have an exponent for them. */
const addUp =
  '$2 > 1 && $3 != "d" && seen[$4]++ { next } { blocks[$5] += $1; count[$5]++ } ' +
  'END { for (path in count) printf "%.0f\\t%.0f\\t%s\\n", blocks[path], count[path], path }';

function sumOf(found: ReadonlyMap<string, Files>): number {
  return found.values().reduce((sum, { bytes }) => sum + bytes, 0);
}

/** Remembers what never changes: of a run its first process, of a container where its files are. */
export class DockerUsage {
  readonly #context: DockerContext;
  readonly #pids = new Map<string, number>();
  readonly #paths = new Map<string, Paths>();
  readonly #shell = new Shell();
  /** Their limits are nobody's here: measuring a large one may not hold up what containers are measured for. */
  readonly #volumeShell = new Shell();
  /** Nor what steps of builds are measured for. */
  readonly #stepShell = new Shell();

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
    const { upperDir, beside, volumes } = await this.#pathsOf(id, options);
    const written = await this.#filesOf([...(upperDir === undefined ? [] : [upperDir]), ...beside], options);
    const own = upperDir === undefined ? undefined : written.get(upperDir);
    const besideBytes = beside.reduce((sum, path) => sum + (written.get(path)?.bytes ?? 0), 0);
    const pid = await this.#pidOf(id, options);
    const open = pid === undefined ? 0 : await deletedBytes(pid, id);
    return {
      writableBytes: (own?.bytes ?? (await this.#writableByEngine(id, options))) + besideBytes + open,
      writableFiles: written.values().reduce((sum, { count }) => sum + count, 0),
      volumeBytes: (await this.#bytesBelow(volumes, options)) ?? 0,
    };
  }

  /** What goes with a container beside what it wrote over its image, of which the engine tells. */
  async besideBytes(id: string, options: CallOptions): Promise<number> {
    const { beside } = await this.#pathsOf(id, options);
    return sumOf(await this.#filesOf(beside, options, this.#stepShell));
  }

  async volumeBytes(name: string, options: CallOptions): Promise<number | undefined> {
    const { Mountpoint } = await engineCall(
      `looking at volume ${name}`,
      (abortSignal) => {
        const request = { abortSignal };
        return this.#context.docker.getVolume(name).inspect(request);
      },
      options,
    );
    return this.#bytesBelow([Mountpoint], options, this.#volumeShell);
  }

  async #pathsOf(id: string, options: CallOptions): Promise<Paths> {
    const known = this.#paths.get(id);
    if (known !== undefined) return known;
    const info = await this.#inspect(id, options);
    // Engines whose images are containerd's say nothing of it, or not where.
    const data = graphDriverSchema.safeParse(info).data?.GraphDriver.Data ?? {};
    const mounted = info.Mounts.filter(({ Type }) => Type === 'volume');
    const ownPrefix = volumeName(this.#context.cluster, '');
    const isOwn = ({ Name: name = '' }: { Name?: string }): boolean => name.startsWith(ownPrefix);
    // A VOLUME of the image has one without a name, unless the job has a volume there.
    const nameless = mounted.filter((mount) => !isOwn(mount)).map(({ Source }) => Source);
    const files = Object.values(enginesFilesSchema.safeParse(info).data ?? {}).filter((path) => path !== '');
    const paths = {
      upperDir: data['UpperDir'],
      beside: [...nameless, ...files],
      volumes: mounted.filter(isOwn).map(({ Source }) => Source),
    };
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

  /** Undefined if one of the folders is not to be seen from here. */
  async #bytesBelow(
    folders: readonly string[],
    options: CallOptions,
    shell = this.#shell,
  ): Promise<number | undefined> {
    const found = await this.#filesOf(folders, options, shell);
    return folders.length === 0 || found.size < folders.length ? undefined : sumOf(found);
  }

  /**
   * In the background's background, one walk for both. A file of several names is one. Files that vanish meanwhile are left
   * out, and so is what is not to be seen from here.
   */
  async #filesOf(paths: readonly string[], { signal }: CallOptions, shell = this.#shell): Promise<Map<string, Files>> {
    if (paths.length === 0) return new Map();
    // Exit codes tell of files that went while it looked; what could be added up is told all the same.
    const find = `nice -n 19 find ${paths.map(quoted).join(' ')} -xdev -printf '%b\\t%n\\t%y\\t%D:%i\\t%H\\n'`;
    const output = await shell.run(`export LC_ALL=C; ${find} | nice -n 19 awk -F '\\t' '${addUp}'; true`, {
      deadlineMs: diskDeadlineMs,
      ...(signal === undefined ? {} : { signal }),
    });
    const lines = output.split('\n').flatMap((line) => {
      const [, blocks, count, path = ''] = /^(\d+)\t(\d+)\t(.*)$/.exec(line) ?? [];
      return blocks === undefined ? [] : [[path, { bytes: Number(blocks) * 512, count: Number(count) }] as const];
    });
    return new Map(lines);
  }

  /** Undefined of one that does not run. */
  async #pidOf(id: string, options: CallOptions): Promise<number | undefined> {
    const known = this.#pids.get(id);
    if (known !== undefined && isOf(known, id)) return known;
    const { State: state } = await this.#inspect(id, options);
    if (!state.Running) return undefined;
    this.#pids.set(id, state.Pid);
    return state.Pid;
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
