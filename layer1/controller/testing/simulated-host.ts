/** A host without containers: it takes assignments like a host agent and says of its jobs what it is told to. For tests. */
import { Readable } from 'node:stream';
import type { Duplex } from 'node:stream';
import { FlynnError } from '@flynn/kit/errors';
import { exitCodeText } from '@flynn/kit/exit-codes';
import { encodeFrame, readFrames } from '@flynn/kit/frames';
import { handle, startServer } from '@flynn/kit/http-server';
import type { RunningServer } from '@flynn/kit/http-server';
import { newId } from '@flynn/kit/ids';
import type { Logger } from '@flynn/kit/log';
import { KeyedMutex } from '@flynn/kit/queue';
import { retry, waitFor } from '@flynn/kit/retry';
import { TaskGroup } from '@flynn/kit/tasks';
import { routes } from '@flynn/host-agent/api';
import { backupFileHandlers } from '@flynn/host-agent/disk/backup-files';
import { volumeRoutes } from '@flynn/host-agent/volumes/api';
import { doctorRoutes } from '@flynn/host-agent/doctor/api';
import type { HostUse, LogLine } from '@flynn/host-agent/api';
import type { Finding } from '@flynn/host-agent/doctor/finding';
import { keepAnnounced } from '@flynn/host-agent/hosts/record';
import { assignmentSchema, cellKeys } from '@flynn/scheduler/cell';
import { jobTemplateSchema } from '@flynn/scheduler/job-template';
import type { AssignedGroup, Assignment, HostJob, HostRecord, JobStatus } from '@flynn/scheduler/cell';
import type { JobTemplate } from '@flynn/scheduler/job-template';
import { evaluationPut } from '@flynn/scheduler/evaluations';
import { openMirror } from '@flynn/store/mirror';
import type { Mirror } from '@flynn/store/mirror';
import type { Lease, Store } from '@flynn/store/store';

/**
 * What becomes of a job: `run` is healthy at once, `hang` never is, `exit` ends with the code (0 is done), `crash` is started
 * again later.
 */
export type Behaviour =
  /** `lingers`: told to stop, it goes on until `end` is called. */
  | { is: 'run'; lines?: readonly string[]; lingers?: boolean }
  | { is: 'hang' }
  | { is: 'exit'; code: number; lines?: readonly string[] }
  /** `isBack`: it was started again before anybody looked. */
  | { is: 'crash'; code: number; lines?: readonly string[]; isBack?: boolean }
  | { is: 'fail'; error: string };

/** What it says on either output, and how it ends. */
export type Program = { stdout?: string; stderr?: string; code: number };

export type SimulatedHostOptions = {
  store: Store;
  id: string;
  key: string;
  log: Logger;
  behave: (job: HostJob) => Behaviour;
  memoryBytes?: number;
  /** Of this machine's, default 127.0.0.1. */
  address?: string;
};

/** What any simulated host says of its machine. */
const hostUse: HostUse = {
  cores: 64,
  cpuPercent: 0,
  load: 0,
  memoryBytes: 64 * 1024 ** 3,
  memoryUsedBytes: 0,
  disk: { path: '/', totalBytes: 1024 ** 4, usedBytes: 0, usedPercent: 0 },
};

/** What any volume here has in it. */
export const emptyVolumeBytes = 4_096;

/** INVARIANT. A job's status is written by one write at a time, and never again after it is final. */
export class SimulatedHost implements AsyncDisposable {
  readonly id: string;
  /** What it says of itself when it is examined. */
  readonly agent = {
    version: '0.1.0',
    engine: { isConnected: true, version: '26.1' },
    scheduler: 'runs',
    diskUsedPercent: 40,
    memoryUsedPercent: 50,
  } as const;
  findings: readonly Finding[] = [];
  /** Processor time that a running job took since its start. */
  cpuSecondsOf: (jobId: string) => number = () => 0;
  memoryBytesOf: (jobId: string) => number = () => 0;
  /** What a program beside a job does that was given all of its input; by default it says what it was given. */
  programs: (command: readonly string[], input: Buffer) => Program | undefined = () => undefined;
  /** In their place: programs that speak frames themselves, on the connection. */
  streams: ((command: readonly string[], socket: Duplex, job: HostJob) => Promise<void>) | undefined;
  readonly #options: SimulatedHostOptions;
  readonly #jobs = new Map<string, { job: HostJob; status: JobStatus; lines: string[] }>();
  /** What jobs left. */
  readonly #volumes = new Map<string, { meta: Record<string, string>; createdAtMs: number }>();
  readonly #lingering = new Set<string>();
  readonly #endsItself = new Set<string>();
  readonly #turns = new KeyedMutex();
  #server: RunningServer | undefined;
  readonly #tasks = new TaskGroup();
  #lease: Lease | undefined;
  readonly #templates = new Map<string, Promise<JobTemplate>>();
  #mirror: Mirror<Assignment> | undefined;

  constructor(options: SimulatedHostOptions) {
    this.id = options.id;
    this.#options = options;
  }

  async start(): Promise<void> {
    const { store, id, key, log, memoryBytes = 64 * 1024 ** 3, address = '127.0.0.1' } = this.#options;
    this.#server = await startServer({
      name: `host ${id}`,
      handlers: this.#handlers(),
      key,
      port: 0,
      host: address,
      log,
    });
    const record: HostRecord = {
      id,
      address,
      apiPort: this.#server.port,
      capacity: { memoryBytes, cpuMillis: 64_000 },
      attributes: {},
      cordoned: false,
      startedAt: Date.now(),
    };
    const announced = Promise.withResolvers<void>();
    // As host agents do: one whose store was away too long is back in the cell once that is back.
    this.#tasks.run('announcing', async (signal) => {
      await keepAnnounced(store, () => record, {
        signal,
        log,
        onAnnounced: async (lease) => {
          this.#lease = lease;
          announced.resolve();
        },
      });
    });
    await announced.promise;
    this.#mirror = await openMirror({
      store,
      prefix: cellKeys.hostAssignments(id),
      decode: (json) => assignmentSchema.parse(json),
      log,
    });
    this.#mirror.onChange(({ after }) => this.#converge(after?.groups ?? []));
    for (const { value } of this.#mirror.snapshot.entries.values()) this.#converge(value.groups);
  }

  /** What the host says of its jobs. */
  statuses(): JobStatus[] {
    return [...this.#jobs.values()].map(({ status }) => status);
  }

  /** Lets a job end by itself, as its process would. */
  async end(jobId: string, code: number): Promise<void> {
    await this.#write(jobId, ended(code));
  }

  /** From now on it says that of a job, too. */
  async say(jobId: string, what: Pick<JobStatus, 'goesLast'>): Promise<void> {
    await this.#write(jobId, what);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#mirror?.[Symbol.asyncDispose]();
    await this.#tasks.stop();
    await this.#lease?.[Symbol.asyncDispose]();
    await this.#server?.close();
  }

  #converge(groups: readonly AssignedGroup[]): void {
    for (const group of groups) {
      this.#take(group).catch((error: unknown) =>
        this.#options.log.error({ err: error, group }, 'the simulated host failed'),
      );
    }
  }

  /** In the order they came: all of them wait for the same template. */
  async #take({ workloadId, version, singleton, jobs }: AssignedGroup): Promise<void> {
    const template = await this.#templateOf(cellKeys.template(workloadId, version));
    await Promise.all(
      jobs.map((assigned) => {
        const job = { ...assigned, workloadId, version, singleton, template };
        return job.desired === 'stop' ? this.#stop(job) : this.#run(job);
      }),
    );
  }

  #templateOf(key: string): Promise<JobTemplate> {
    const known = this.#templates.get(key);
    if (known !== undefined) return known;
    const get = (signal: AbortSignal) => this.#options.store.get(key, { signal });
    const fetched = retry(get, { what: 'reading a template', deadlineMs: 60_000 }).then((entry) => {
      if (entry === undefined) throw new FlynnError('not_found', `there is no ${key} to run`);
      return jobTemplateSchema.parse(JSON.parse(entry.value));
    });
    this.#templates.set(key, fetched);
    return fetched;
  }

  async #run(job: HostJob): Promise<void> {
    if (this.#jobs.has(job.id)) return;
    const behaviour = this.#options.behave(job);
    const lines = 'lines' in behaviour ? [...(behaviour.lines ?? [])] : [];
    if (behaviour.is === 'exit' || behaviour.is === 'fail') this.#endsItself.add(job.id);
    this.#jobs.set(job.id, { job, status: this.#starting(job), lines });
    for (const { name } of job.template.volumes) {
      if (!this.#volumes.has(name)) this.#volumes.set(name, { meta: job.template.meta, createdAtMs: Date.now() });
    }
    await this.#write(job.id, { startedAt: Date.now(), address: `10.0.0.${this.id.replace(/\D+/, '')}` });
    switch (behaviour.is) {
      case 'run':
        if (behaviour.lingers === true) this.#lingering.add(job.id);
        return this.#write(job.id, { state: 'running' });
      case 'hang':
        return;
      case 'exit':
        return this.#write(job.id, ended(behaviour.code));
      case 'crash':
        if (behaviour.isBack === true) {
          const before = { lastError: `ended with ${exitCodeText(behaviour.code)}`, lastExitCode: behaviour.code };
          return this.#write(job.id, { state: 'running', restarts: 1, ...before });
        }
        return this.#write(job.id, { state: 'crashed', exitCode: behaviour.code, nextStartAt: Date.now() + 60_000 });
      case 'fail':
        return this.#write(job.id, { state: 'failed', isFinal: true, error: behaviour.error, endedAt: Date.now() });
    }
  }

  #starting(job: HostJob): JobStatus {
    return {
      id: job.id,
      hostId: this.id,
      workloadId: job.workloadId,
      version: job.version,
      meta: job.template.meta,
      state: 'starting',
      isFinal: false,
      restarts: 0,
      createdAt: Date.now(),
    };
  }

  async #stop(job: HostJob): Promise<void> {
    if (!this.#jobs.has(job.id)) this.#jobs.set(job.id, { job, status: this.#starting(job), lines: [] });
    await this.#write(job.id, this.#lingering.has(job.id) ? { state: 'stopping' } : ended(0));
  }

  /** Ended because somebody asked: what is wanted is started again, under the same id. */
  async #restart(job: HostJob): Promise<void> {
    if (job.template.restart === 'never') return this.end(job.id, 0);
    await this.#write(job.id, { state: 'done', exitCode: 143, endedAt: Date.now(), nextStartAt: Date.now() });
    const restarts = (this.#jobs.get(job.id)?.status.restarts ?? 0) + 1;
    return this.#write(job.id, { state: 'running', restarts, startedAt: Date.now() });
  }

  #usersOf(volume: string): string[] {
    const jobs = [...this.#jobs.values()].filter(({ status }) => !status.isFinal);
    const users = jobs.filter(({ job }) => job.template.volumes.some(({ name }) => name === volume));
    return users.map(({ job }) => job.id);
  }

  #write(jobId: string, change: Partial<JobStatus>): Promise<void> {
    return this.#turns.run(jobId, async () => {
      const known = this.#jobs.get(jobId);
      // A host that is gone says nothing more.
      if (known === undefined || known.status.isFinal || this.#tasks.signal.aborted) return;
      known.status = { ...known.status, ...change };
      const { status } = known;
      const put = { put: cellKeys.jobStatus(this.id, jobId), value: JSON.stringify(status) };
      // Like a host agent, which goes on trying while the store is away; an evaluation it wrote may have ended by then.
      const tell = (signal: AbortSignal) => {
        const context = { now: Date.now(), newId };
        const evaluation = status.isFinal ? [evaluationPut(status.workloadId, 'job_ended', context)] : [];
        return this.#options.store.transact({ then: [put, ...evaluation] }, { signal });
      };
      await retry(tell, { what: 'telling of a job', deadlineMs: 60_000 });
    });
  }

  #handlers() {
    const jobOf = (id: string) => {
      const known = this.#jobs.get(id);
      if (known === undefined) throw new FlynnError('not_found', `host ${this.id} has no job ${id}`);
      return known;
    };
    return [
      ...backupFileHandlers(),
      handle(volumeRoutes.list, async ({ query }) =>
        [...this.#volumes].map(([name, { meta, createdAtMs }]) => {
          const bytes = query.sizes === true ? emptyVolumeBytes : undefined;
          return { name, meta, createdAtMs, jobs: this.#usersOf(name), bytes };
        }),
      ),
      handle(volumeRoutes.remove, async ({ params: { volume } }) => {
        const [user] = this.#usersOf(volume);
        if (user !== undefined) throw new FlynnError('conflict', `the volume ${volume} is in use by the job ${user}`);
        this.#volumes.delete(volume);
      }),
      handle(routes.stats, async () => {
        const running = this.statuses().filter(({ state }) => state === 'running');
        const jobs = running.map(({ id }) => {
          const cpuSeconds = this.cpuSecondsOf(id);
          return {
            jobId: id,
            isResident: false,
            cpuSeconds,
            cpuPercent: 0,
            memoryBytes: this.memoryBytesOf(id),
            pids: 1,
          };
        });
        return { host: hostUse, jobs };
      }),
      handle(routes.job, async ({ params }) => jobOf(params.job).status),
      handle(routes.log, async ({ params, query }) => {
        const { lines, job } = jobOf(params.job);
        const wanted = lines.slice(-(query.lines ?? lines.length));
        const records = wanted.map((message, index): LogLine => ({
          jobId: job.id,
          hostId: this.id,
          stream: 'stdout',
          timestamp: new Date(index).toISOString(),
          message,
          meta: job.template.meta,
        }));
        return {
          body: Readable.from(
            records.map((record) => `${JSON.stringify(record)}\n`),
            { objectMode: false },
          ),
        };
      }),
      // As host agents do: who is led here before the host has heard of the job waits for it.
      handle(routes.attach, async ({ params, signal }) => {
        const wait = { what: `the job ${params.job}`, deadlineMs: 30_000, intervalMs: 5, signal };
        const { job, lines } = await waitFor(() => this.#jobs.get(params.job), wait);
        return (socket) => void this.#echo(job, lines, socket);
      }),
      // If nothing else is said of it: says what it was given, then what it hears; ends with 5 when its input does.
      handle(routes.exec, async ({ params, query }) => {
        const known = jobOf(params.job);
        if (known.status.state !== 'running') throw new FlynnError('conflict', `the job ${params.job} is not running`);
        return (socket) => {
          const run = this.streams ?? ((command, to) => this.#exec(command, to));
          run(query.command, socket, known.job).catch((error: unknown) => {
            this.#options.log.debug({ err: error }, 'a program beside a job broke off');
            socket.destroy();
          });
        };
      }),
      // It knows of itself only.
      handle(doctorRoutes.cluster, async () => ({
        hostId: this.id,
        hosts: [{ id: this.id, state: 'up' as const, agent: { ...this.agent, store: { isReachable: true } } }],
        etcd: [{ endpoint: 'http://127.0.0.1:2379', hostId: this.id, isHealthy: true, isLeader: true, version: '3.5' }],
        findings: [...this.findings],
        unknown: [],
      })),
      handle(routes.stop, async ({ params }) => this.#restart(jobOf(params.job).job)),
    ];
  }

  async #exec(command: readonly string[], socket: Duplex): Promise<void> {
    const heard: Buffer[] = [];
    let isWhole = false;
    for await (const frame of readFrames(socket)) {
      if (frame.kind === 'stdin') heard.push(frame.data);
      isWhole = frame.kind === 'stdin-end';
      if (isWhole) break;
    }
    const input = Buffer.concat(heard);
    // The input of one whose client is gone ends, too.
    const does = this.programs(command, input) ?? { stdout: `${command.join('|')}\n${input.toString()}`, code: 5 };
    if (!isWhole) return;
    for (const kind of ['stdout', 'stderr'] as const) {
      const data = Buffer.from(does[kind] ?? '');
      if (data.length > 0) socket.write(encodeFrame({ kind, data }));
    }
    socket.end(encodeFrame({ kind: 'exit', code: does.code }));
  }

  /** Says its lines, then says again what it hears; ends when its input does, but for a job that ends by itself. */
  async #echo({ id: jobId }: HostJob, lines: readonly string[], socket: Duplex): Promise<void> {
    const isOver = () => this.#jobs.get(jobId)?.status.isFinal === true;
    try {
      for (const line of lines) socket.write(encodeFrame({ kind: 'stdout', data: Buffer.from(`${line}\n`) }));
      if (this.#endsItself.has(jobId)) await waitFor(isOver, { what: 'its end', deadlineMs: 30_000, intervalMs: 5 });
      if (!isOver()) {
        let isWhole = false;
        for await (const frame of readFrames(socket)) {
          if (frame.kind === 'stdin') socket.write(encodeFrame({ kind: 'stdout', data: frame.data }));
          isWhole = frame.kind === 'stdin-end';
          if (isWhole) break;
        }
        // Of whoever is gone without that it goes on.
        if (!isWhole && !isOver()) return;
        if (isWhole) await this.end(jobId, 0);
      }
      socket.end(encodeFrame({ kind: 'exit', code: this.#jobs.get(jobId)?.status.exitCode ?? 0 }));
    } catch (error) {
      this.#options.log.debug({ err: error, job: jobId }, 'an attached client went away');
      socket.destroy();
    }
  }
}

function ended(code: number): Partial<JobStatus> {
  return { state: code === 0 ? 'done' : 'failed', isFinal: true, exitCode: code, endedAt: Date.now() };
}
