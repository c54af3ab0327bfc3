/**
 * Jobs that run once and have an input were started by somebody who stays with them (`flynn run`). One whose last client has gone
 * finds the end of its input; if that does not end it, or nobody ever came, this does, so that nothing runs for nobody for ever.
 * The time is for work under way, which a connection that breaks must not cost: a migration, an import.
 */
import { pause } from '@flynn/kit/clock';
import { hasCode } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import type { HostJob } from '@flynn/scheduler/cell';
import type { ContainerTable } from '../containers/table.ts';
import type { Container, Engine } from '../engine/engine.ts';
import type { Sessions } from './session.ts';

/** As long as a release's script has. */
const patienceMs = 60 * 60_000;
const lookMs = 30_000;

/** Since when nobody is with each job, as this agent saw it: the next one counts anew. */
export class Unattended {
  readonly #patienceMs: number;
  readonly #since = new Map<string, number>();
  readonly #told = new Set<string>();

  constructor(options: { patienceMs?: number } = {}) {
    this.#patienceMs = options.patienceMs ?? patienceMs;
  }

  /** `nowMs` of a clock that nobody sets. Each is first told that its client hung up, and a look later stopped. */
  look(jobs: readonly { id: string; isAttended: boolean }[], nowMs: number): { hangUp: string[]; stop: string[] } {
    const alone = new Set(jobs.filter(({ isAttended }) => !isAttended).map(({ id }) => id));
    for (const id of this.#since.keys()) if (!alone.has(id)) this.#since.delete(id);
    for (const id of this.#told) if (!alone.has(id)) this.#told.delete(id);
    const overdue: string[] = [];
    for (const id of alone) {
      const sinceMs = this.#since.get(id) ?? nowMs;
      this.#since.set(id, sinceMs);
      if (nowMs - sinceMs >= this.#patienceMs) overdue.push(id);
    }
    const stop = overdue.filter((id) => this.#told.has(id));
    const hangUp = overdue.filter((id) => !this.#told.has(id));
    for (const id of hangUp) this.#told.add(id);
    return { hangUp, stop };
  }
}

export type UnattendedDeps = Readonly<{
  engine: Pick<Engine, 'signal'>;
  containers: Pick<ContainerTable, 'ofJob'>;
  sessions: Pick<Sessions, 'get'>;
  assigned: () => readonly Pick<HostJob, 'id' | 'template'>[];
  requestStop: (jobId: string) => void;
  /** Into the job's log. */
  note: (container: Container, message: string) => void;
  log: Logger;
}>;

/** One look. What ended at the same moment by itself is fine; one that cannot be ended is told, and keeps no other alive. */
export async function endUnattended(deps: UnattendedDeps, unattended: Unattended, nowMs: number): Promise<void> {
  const { engine, containers, sessions, log } = deps;
  const jobs = deps
    .assigned()
    .filter(({ id, template }) => template.stdin && template.restart === 'never' && containerOf(id) !== undefined)
    .map(({ id }) => ({ id, isAttended: (sessions.get(id)?.readers ?? 0) > 0 }));
  const { hangUp, stop } = unattended.look(jobs, nowMs);
  for (const jobId of hangUp) {
    const container = containerOf(jobId);
    if (container === undefined) continue;
    log.info({ jobId }, 'nobody has been with a job for too long that was started for somebody: it is ended');
    await attempt(jobId, async () => {
      deps.note(container, 'its client has been gone for an hour: it is ended (SIGHUP, then SIGTERM)');
      await engine.signal(container.id, 'SIGHUP');
    });
  }
  for (const jobId of stop) await attempt(jobId, async () => deps.requestStop(jobId));

  async function attempt(jobId: string, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (hasCode(error, 'conflict', 'not_found')) return;
      log.warn({ err: error, jobId }, 'a job that nobody is with could not be told to end');
    }
  }

  function containerOf(jobId: string): Container | undefined {
    const container = containers.ofJob(jobId);
    return container?.state === 'running' ? container : undefined;
  }
}

/** Until the signal. Begun again after a failure, with the same `unattended`: with another every job's time would begin anew. */
export async function keepAttended(deps: UnattendedDeps, unattended: Unattended, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await endUnattended(deps, unattended, performance.now());
    await pause(lookMs, signal);
  }
}
