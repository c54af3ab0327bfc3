/**
 * What really runs on the hosts, whatever engines, agents and the cell say of it: the kernel's control groups, looked at
 * all the time.
 */
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { ClusterHost } from '@flynn/bootstrap/test-hosts/cluster-host';
import { suiteHosts } from '@flynn/bootstrap/test-hosts/network';
import { nameVariable } from './workloads.ts';

/** Much shorter than the second and more between the end of one singleton and the start of the next. */
const lookEveryMs = 50;
/** Of this controller there is a directory for each container in either layout of control groups. */
const roots = ['/sys/fs/cgroup/pids', '/sys/fs/cgroup'];

/** One container's processes, from their first sight to their last. Times are of performance.now(). */
export type Run = { containerId: string; host: string; name: string; startedMs: number; endedMs: number | undefined };

export class Witness implements Disposable {
  readonly #hosts: readonly ClusterHost[];
  readonly #singletons: ReadonlySet<string>;
  readonly #running = new Map<string, Run>();
  readonly #strangers = new Map<string, string>();
  readonly #timer: NodeJS.Timeout;
  #runs: Run[] = [];
  #doubles: string[] = [];
  #looks = 0;
  #begunMs = performance.now();

  constructor(hosts: readonly ClusterHost[], singletons: readonly string[]) {
    this.#hosts = hosts;
    this.#singletons = new Set(singletons);
    this.#timer = setInterval(() => this.look(), lookEveryMs);
  }

  /** Forgets what ended, and how often it has looked. */
  begin(): void {
    this.#runs = [...this.#running.values()];
    this.#doubles = [];
    this.#looks = 0;
    this.#begunMs = performance.now();
  }

  /** Moments at which a singleton ran twice, in words. */
  get doubles(): readonly string[] {
    return this.#doubles;
  }

  get looks(): number {
    return this.#looks;
  }

  /** What ran since `begin`, of one name or all. */
  runs(name?: string): readonly Run[] {
    return this.#runs.filter((run) => name === undefined || run.name === name);
  }

  /** What started or ended since `begin`. */
  changes(): readonly Run[] {
    return this.#runs.filter(({ startedMs, endedMs }) => startedMs >= this.#begunMs || endedMs !== undefined);
  }

  look(): void {
    const at = performance.now();
    this.#looks += 1;
    const seen = new Set<string>();
    for (const host of this.#hosts) {
      for (const [containerId, name] of this.#containersOf(host)) {
        seen.add(containerId);
        if (this.#running.has(containerId)) continue;
        const run: Run = { containerId, host: host.name, name, startedMs: at, endedMs: undefined };
        this.#running.set(containerId, run);
        this.#runs.push(run);
      }
    }
    for (const [containerId, run] of this.#running) {
      if (seen.has(containerId)) continue;
      run.endedMs = at;
      this.#running.delete(containerId);
    }
    const now = Map.groupBy(this.#running.values(), ({ name }) => name);
    for (const name of this.#singletons) {
      const [first, second] = now.get(name) ?? [];
      if (first === undefined || second === undefined) continue;
      // They were not seen at one moment: between one host and the next this process may have stood still.
      if (!this.#runsStill(first) || !this.#runsStill(second)) continue;
      this.#doubles.push(`${name} ran on ${first.host} and on ${second.host} at ${at.toFixed(0)} ms`);
    }
  }

  #runsStill({ containerId, host: name }: Run): boolean {
    const host = this.#hosts.find((one) => one.name === name);
    return host !== undefined && this.#containersOf(host).some(([id]) => id === containerId);
  }

  /** Containers of this suite's jobs that have a process, by id, with the names of their workloads. */
  #containersOf(host: ClusterHost): [string, string][] {
    const group = `${suiteHosts.prefix}-${host.name}`;
    const root = roots.find((one) => list(join(one, group)).length > 0);
    if (root === undefined) return [];
    return list(join(root, group)).flatMap((containerId): [string, string][] => {
      const [pid] = read(join(root, group, containerId, 'cgroup.procs')).split('\n');
      if (pid === undefined || pid === '') return [];
      const known = this.#running.get(containerId)?.name;
      if (known !== undefined) return [[containerId, known]];
      // Whose it is can be read once its own program runs; a process that is none of ours never becomes one.
      if (this.#strangers.get(containerId) === pid) return [];
      const environment = read(`/proc/${pid}/environ`).split('\0');
      const name = environment.find((one) => one.startsWith(`${nameVariable}=`))?.slice(nameVariable.length + 1);
      if (name !== undefined) return [[containerId, name]];
      if (environment.some((one) => one.startsWith('FLYNN_JOB_ID='))) this.#strangers.set(containerId, pid);
      return [];
    });
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}

/** Groups and processes go away while one looks. */
function list(directory: string): string[] {
  try {
    return readdirSync(directory, { withFileTypes: true }).flatMap((one) => (one.isDirectory() ? [one.name] : []));
  } catch {
    return [];
  }
}

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
