/** How many processors jobs are busy with, by the processor time that hosts tell at two looks. */
export type JobSeconds = ReadonlyMap<string, Readonly<{ atMs: number; seconds: number }>>;

type Told = Readonly<{ atMs: number; seconds: number }>;

export class Processors {
  #jobs: ReadonlyMap<string, Told> = new Map();
  /** When hosts that answered the last time did. */
  #hosts: ReadonlyMap<string, number> = new Map();

  /**
   * Since the look before; of each job that a host told of, on the host that it is on by `hostOf`. Unknown, NaN, is what a job took
   * on a host that did not answer the last time, where it is not known how long it runs.
   */
  note(told: JobSeconds, hostOf: (jobId: string) => string | undefined): Map<string, number> {
    const cores = new Map<string, number>();
    const hosts = new Map<string, number>();
    for (const [jobId, now] of told) {
      const hostId = hostOf(jobId);
      if (hostId === undefined) continue;
      hosts.set(hostId, now.atMs);
      cores.set(jobId, coresOf(now, this.#jobs.get(jobId), this.#hosts.get(hostId)));
    }
    this.#jobs = told;
    this.#hosts = hosts;
    return cores;
  }
}

function coresOf(now: Told, before: Told | undefined, hostBeforeMs: number | undefined): number {
  // A container that was not there then began since: all that it took was in between. So it is with one that was started anew.
  const sinceMs = before?.atMs ?? hostBeforeMs;
  if (sinceMs === undefined || now.atMs <= sinceMs) return Number.NaN;
  const from = before === undefined || before.seconds > now.seconds ? 0 : before.seconds;
  return (now.seconds - from) / ((now.atMs - sinceMs) / 1_000);
}
