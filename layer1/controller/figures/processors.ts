/** How many processors jobs are busy with, by the processor time that hosts tell at two looks. */
export type JobSeconds = ReadonlyMap<string, Readonly<{ atMs: number; seconds: number }>>;

type Told = Readonly<{ atMs: number; seconds: number }>;

export class Processors {
  #jobs: JobSeconds = new Map();
  /** When hosts that answered the last time did. */
  #hosts: ReadonlyMap<string, number> = new Map();
  /** All jobs that there were then, whatever was told of them. */
  #known: ReadonlySet<string> = new Set();

  /**
   * Since the look before; of each job that a host told of, on the host that it is on by `hostOf`. `known`: all jobs that there
   * are, those that do not run yet too. Unknown, NaN, is what a job took where it is not known what it had taken before: its host
   * did not answer, or left it out. What is noted is not to be changed afterwards.
   */
  note(
    told: JobSeconds,
    hostOf: (jobId: string) => string | undefined,
    known: ReadonlySet<string>,
  ): Map<string, number> {
    const cores = new Map<string, number>();
    const hosts = new Map<string, number>();
    for (const [jobId, now] of told) {
      const hostId = hostOf(jobId);
      if (hostId === undefined) continue;
      hosts.set(hostId, now.atMs);
      // What there was no word of at all began since: all that it took was in between.
      const newSinceMs = this.#known.has(jobId) ? undefined : this.#hosts.get(hostId);
      cores.set(jobId, coresOf(now, this.#jobs.get(jobId), newSinceMs));
    }
    this.#jobs = told;
    this.#hosts = hosts;
    this.#known = known;
    return cores;
  }
}

function coresOf(now: Told, before: Told | undefined, newSinceMs: number | undefined): number {
  const sinceMs = before?.atMs ?? newSinceMs;
  if (sinceMs === undefined || now.atMs <= sinceMs) return Number.NaN;
  // One that has taken less than before was started anew.
  const from = before === undefined || before.seconds > now.seconds ? 0 : before.seconds;
  return (now.seconds - from) / ((now.atMs - sinceMs) / 1_000);
}
