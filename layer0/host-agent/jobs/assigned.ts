/** What this host was told to run: its assignments, and the templates they name. */
import { FlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { forever } from '@flynn/kit/tasks';
import { assignedGroupSchema, cellKeys } from '@flynn/scheduler/cell';
import { jobTemplateSchema } from '@flynn/scheduler/job-template';
import type { HostJob } from '@flynn/scheduler/cell';
import type { JobTemplate } from '@flynn/scheduler/job-template';
import type { Store } from '@flynn/store/store';
import { z } from 'zod';

/** Of an assignment what its host asks of it: what else a later version says in one is nothing to it. */
const hostAssignmentSchema = z.object({ groups: z.array(assignedGroupSchema.omit({ demand: true })) });
/** Told of one that cannot be read: whose jobs it has. */
const namingSchema = z.object({ groups: z.array(z.object({ workloadId: z.string() })) });

/** With `unread` it has jobs of these workloads that cannot be read. */
export type HostAssignment = z.output<typeof hostAssignmentSchema> & { readonly unread?: readonly string[] };

/** Throws for one of which not even that can be told whose jobs it has. */
export function decodeAssignment(json: unknown, onFault: (error: unknown) => void): HostAssignment {
  const parsed = hostAssignmentSchema.safeParse(json);
  if (parsed.success) return parsed.data;
  const naming = namingSchema.safeParse(json).data?.groups ?? [];
  if (naming.length === 0) throw parsed.error;
  onFault(parsed.error);
  return { groups: [], unread: naming.map(({ workloadId }) => workloadId) };
}

/** Workloads that have something assigned which cannot be read: others do not, but where nobody can tell. */
export type Unread = 'any' | ReadonlySet<string>;

/** Why a job cannot be started. `isUnreadable`: its template is there, and a later version may read it. */
export type Problem = Readonly<{ text: string; isUnreadable: boolean }>;

/** A job that cannot be started because its template is not there, or cannot be read. */
export type BrokenJob = Omit<HostJob, 'template'> & { readonly template?: undefined; readonly problem: Problem };

export type DesiredJob = HostJob | BrokenJob;

/** What is needed of the mirror of this host's assignments. */
export type Assignments = {
  readonly snapshot: { readonly entries: ReadonlyMap<string, { readonly value: HostAssignment }> };
  readonly unreadable: ReadonlySet<string>;
  onChange(listener: () => void): () => void;
};

/** As assigned: the template is named, not there. */
type NamedJob = Omit<HostJob, 'template'>;

/** etcd takes 128 operations in a transaction. */
const fetchedAtOnce = 100;

/**
 * INVARIANTS. A template never changes, so it is fetched once for as long as a job names it. It is written before its
 * jobs are assigned: one that is not there was removed, and that is told of each job that needed it, so that a later job
 * looks again. While the store is away jobs whose template is known are known, and of the others nothing is concluded.
 */
export class AssignedJobs {
  readonly #store: Store;
  readonly #assignments: Assignments;
  readonly #log: Logger;
  readonly #templates = new Map<string, JobTemplate>();
  /** By job. */
  readonly #problems = new Map<string, Problem>();
  readonly #listeners = new Set<() => void>();
  #wake = Promise.withResolvers<void>();

  constructor(options: { store: Store; assignments: Assignments; log: Logger }) {
    this.#store = options.store;
    this.#assignments = options.assignments;
    this.#log = options.log;
  }

  /**
   * By id. `unresolved` are assigned as well, but their templates are still to be fetched: leave them as they are. So are
   * perhaps others of the workloads that are `unread`.
   */
  current(): { jobs: Map<string, DesiredJob>; unresolved: Set<string>; unread: Unread } {
    const jobs = new Map<string, DesiredJob>();
    const unresolved = new Set<string>();
    for (const job of this.#assigned().values()) {
      const template = this.#templates.get(nameOf(job));
      const problem = this.#problems.get(job.id);
      if (template !== undefined) jobs.set(job.id, { ...job, template });
      else if (problem !== undefined) jobs.set(job.id, { ...job, problem });
      else unresolved.add(job.id);
    }
    return { jobs, unresolved, unread: this.#unread() };
  }

  #unread(): Unread {
    const { snapshot, unreadable } = this.#assignments;
    if (unreadable.size > 0) return 'any';
    return new Set([...snapshot.entries.values()].flatMap(({ value }) => value.unread ?? []));
  }

  /** Called after every change. Returns the unsubscribe function. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    const stop = this.#assignments.onChange(listener);
    return () => {
      stop();
      this.#listeners.delete(listener);
    };
  }

  /** For whoever learns that others of the assignments can be read, or cannot: no entry changes by that. */
  tell(): void {
    for (const listener of this.#listeners) listener();
  }

  /** Fetches what is missing, and lets go of what no job names any more. Resolves when the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const wake = () => this.#wake.resolve();
    const stop = this.#assignments.onChange(wake);
    signal.addEventListener('abort', wake, { once: true });
    await forever('fetching job templates', (s) => this.#fetch(s), { signal, log: this.#log, maxMs: 2_000 });
    stop();
  }

  /** Once told to stop, a job is to stop, whatever else says otherwise. */
  #assigned(): Map<string, NamedJob> {
    const assigned = new Map<string, NamedJob>();
    for (const { value } of this.#assignments.snapshot.entries.values()) {
      for (const { workloadId, version, singleton, jobs } of value.groups) {
        for (const job of jobs) {
          if (assigned.get(job.id)?.desired !== 'stop') {
            assigned.set(job.id, { ...job, workloadId, version, singleton });
          }
        }
      }
    }
    return assigned;
  }

  async #fetch(signal: AbortSignal): Promise<void> {
    this.#wake = Promise.withResolvers<void>();
    const assigned = this.#assigned();
    this.#forget(assigned);
    const wanting = [...assigned.values()].filter(
      (job) => !this.#templates.has(nameOf(job)) && !this.#problems.has(job.id),
    );
    const names = [...new Set(wanting.map(nameOf))].slice(0, fetchedAtOnce);
    if (names.length === 0) return this.#wake.promise;
    const { reads } = await this.#store.transact(
      { then: names.map((name) => ({ get: `${cellKeys.templates}${name}` })) },
      { signal },
    );
    const problems = new Map<string, Problem>();
    for (const [index, name] of names.entries()) {
      try {
        this.#templates.set(name, parse(reads[index]?.[0]?.value));
      } catch (error) {
        this.#log.error({ template: name }, messageOf(error));
        problems.set(name, { text: messageOf(error), isUnreadable: hasCode(error, 'invalid') });
      }
    }
    for (const job of wanting) {
      const problem = problems.get(nameOf(job));
      if (problem !== undefined) this.#problems.set(job.id, problem);
    }
    this.tell();
  }

  #forget(assigned: ReadonlyMap<string, NamedJob>): void {
    const named = new Set([...assigned.values()].map(nameOf));
    for (const name of this.#templates.keys()) if (!named.has(name)) this.#templates.delete(name);
    for (const id of this.#problems.keys()) if (!assigned.has(id)) this.#problems.delete(id);
  }
}

/** The template's key without its prefix. */
function nameOf({ workloadId, version }: Pick<HostJob, 'workloadId' | 'version'>): string {
  return `${workloadId}/${version}`;
}

function parse(json: string | undefined): JobTemplate {
  if (json === undefined) {
    throw new FlynnError('not_found', 'what to run is not known any more: the job’s template was removed');
  }
  try {
    return jobTemplateSchema.parse(JSON.parse(json));
  } catch (error) {
    throw new FlynnError('invalid', `what to run cannot be read from the job’s template: ${messageOf(error)}`);
  }
}
