/** Examines the cluster from one host: asks every other agent and every member of etcd, and compares what they say. */
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { withDeadline } from '@flynn/kit/retry';
import { assignmentSchema, cellKeys, claimSchema, jobStatusSchema, workloadSchema } from '@flynn/scheduler/cell';
import { evaluationSchema } from '@flynn/scheduler/evaluation';
import type { HostRecord } from '@flynn/scheduler/cell';
import type { EtcdStatus } from '@flynn/store/etcd-status';
import { decodeJson } from '@flynn/store/codec';
import type { Store } from '@flynn/store/store';
import type { KnownHost } from '../api.ts';
import { readKeeper } from '../cluster/keeper.ts';
import { readEncryptionState } from '../network/encryption.ts';
import { siteAttribute } from '../network/lease.ts';
import type { ClusterExamination, ExaminedHost, ExaminedMember, HostExamination } from './api.ts';
import { clockFindings } from './clocks.ts';
import type { ClockSample } from './clocks.ts';
import { encryptionFindings } from './encryption.ts';
import { etcdFindings } from './etcd.ts';
import { Sightings, examine, lessThan, together } from './finding.ts';
import type { Check, Verdict } from './finding.ts';
import { keeperFindings } from './keeper.ts';
import { versionFindings } from './versions.ts';
import { hostFindings, workFindings } from './work.ts';

export type ClusterDoctorDeps = Readonly<{
  hostId: string;
  store: Pick<Store, 'list' | 'get'>;
  /** Hosts of the cell with what is wanted of them, those that are away included; `unavailable` while the store is. */
  knownHosts: (signal: AbortSignal) => Promise<readonly KnownHost[]>;
  /** Hosts that were there when the store was last heard of. */
  rememberedHosts: () => readonly HostRecord[];
  /** Asks a host's agent, this one's too. */
  ask: (host: HostRecord, patienceMs: number, signal: AbortSignal) => Promise<HostExamination>;
  etcd: (signal: AbortSignal) => Promise<EtcdStatus>;
  /** Members on hosts that the store takes for away: theirs is another. None while the store is away. */
  strangers: (signal: AbortSignal) => Promise<EtcdStatus['members']>;
  quotaBytes: () => Promise<number>;
  now: () => number;
}>;

type Answer = Readonly<{ host: HostRecord; sample?: ClockSample; examination?: HostExamination; error?: string }>;

/** One process reads and parses all of it: in a cell of more jobs the controller, which has it at hand, looks instead. */
const mostJobs = 20_000;

/** Whoever has less sees less: what such a look does not find is not over. */
const wholePatienceMs = 5_000;

/** Until then a host that has just come is on its way to a member, and nobody has to see to it. */
const settleMs = 5 * 60_000;

export class ClusterDoctor {
  readonly #deps: ClusterDoctorDeps;
  readonly #sightings = new Sightings();

  constructor(deps: ClusterDoctorDeps) {
    this.#deps = deps;
  }

  async examine(options: { patienceMs: number; work: boolean; signal: AbortSignal }): Promise<ClusterExamination> {
    const { hostId, now } = this.#deps;
    const deadlineMs = lessThan(options.patienceMs);
    const askMs = lessThan(deadlineMs);
    const startedMs = performance.now();
    let etcd: EtcdStatus = { members: [], alarms: [] };
    let hosts: ExaminedHost[] = [];
    let keeper: string | undefined;
    let fromHosts: readonly Verdict[] = [];
    let hasMajority = false;
    let settledHosts = 0;
    const nameOf = (endpoint: string): string => {
      const id = hosts.find(({ address }) => address === new URL(endpoint).hostname)?.id;
      return id === undefined ? `the member at ${endpoint}` : `the member on ${id}`;
    };
    const asking = Promise.withResolvers<void>();
    const checks: Check[] = [
      {
        name: 'hosts',
        find: async (limited) => {
          try {
            const known = await this.#known(limited, askMs / 2);
            const leftMs = Math.ceil(Math.max(askMs / 2, askMs - (performance.now() - startedMs)));
            const answers = await this.#askAll(known.hosts, leftMs, limited);
            keeper = known.keeper;
            hasMajority = known.isOfStore;
            settledHosts = known.hosts.filter(({ record }) => mayBeMember(record) && isSettled(record, now())).length;
            hosts = known.hosts.map((host) => examinedHost(host, known.jobsOn(host.id), answers, hostId));
            fromHosts = answers.map(verdictOf);
            const samples = answers.flatMap(({ sample }) => (sample === undefined ? [] : [sample]));
            return [
              ...hostFindings(known.hosts, known.jobsOn, now()),
              ...keeperFindings(known.hosts, keeper),
              ...clockFindings(samples),
              ...versionFindings(versionsIn(answers)),
            ];
          } finally {
            asking.resolve();
          }
        },
      },
      {
        name: 'etcd',
        find: async () => {
          // With a deadline of its own: what members say by then is worth more than that one did not.
          const until = withDeadline(askMs, options.signal);
          // A machine that is off says nothing for as long as it is asked: those are asked for less.
          const untilStrangers = withDeadline(askMs / 2, options.signal);
          const [status, strangers] = await Promise.all([this.#deps.etcd(until), this.#deps.strangers(untilStrangers)]);
          etcd = status;
          await asking.promise;
          const quotaBytes = await this.#deps.quotaBytes();
          return etcdFindings(etcd, { quotaBytes, nameOf, hasMajority, settledHosts, strangers });
        },
      },
      {
        name: 'encryption',
        find: async (limited) => encryptionFindings(await readEncryptionState(this.#deps.store, limited), now()),
      },
      ...(options.work ? [{ name: 'work', find: (limited: AbortSignal) => this.#work(limited) }] : []),
    ];
    const own = await examine(checks, { subject: 'the cluster', deadlineMs, signal: options.signal });
    const { findings, unknown } = together([own, ...fromHosts]);
    const failed = new Set(own.unknown.map(({ check }) => check));
    const wasCarriedOut = (check: string): boolean => !failed.has(check) && (check !== 'work' || options.work);
    return {
      hostId,
      hosts,
      etcd: etcd.members.map((member) => examinedMember(member, hosts)),
      ...(keeper === undefined ? {} : { keeper }),
      findings: this.#sightings.dated(
        findings,
        now(),
        options.patienceMs < wholePatienceMs ? () => false : wasCarriedOut,
      ),
      unknown,
    };
  }

  /** While the store is away, hosts that were there are asked all the same. */
  async #known(
    signal: AbortSignal,
    storeMs: number,
  ): Promise<{
    hosts: readonly KnownHost[];
    jobsOn: (hostId: string) => number;
    keeper?: string | undefined;
    isOfStore: boolean;
  }> {
    try {
      const until = withDeadline(storeMs, signal);
      const [hosts, claims, keeper] = await Promise.all([
        this.#deps.knownHosts(until),
        this.#deps.store.list(cellKeys.claims, { signal: until }),
        readKeeper(this.#deps.store, until),
      ]);
      const jobs = new Map(
        claims.entries.map(({ key, value }) => [
          key.slice(cellKeys.claims.length),
          decodeJson(claimSchema, value, key).jobs,
        ]),
      );
      return { hosts, jobsOn: (hostId) => jobs.get(hostId) ?? 0, keeper: keeper?.hostId, isOfStore: true };
    } catch (error) {
      if (signal.aborted) throw error;
      const settings = { cordoned: false, tags: {} };
      const hosts = this.#deps.rememberedHosts().map((record) => ({ id: record.id, record, settings }));
      return { hosts, jobsOn: () => 0, isOfStore: false };
    }
  }

  async #askAll(hosts: readonly KnownHost[], patienceMs: number, signal: AbortSignal): Promise<readonly Answer[]> {
    const { now, ask } = this.#deps;
    const there = hosts.flatMap(({ record }) => (record === undefined ? [] : [record]));
    return Promise.all(
      there.map(async (host): Promise<Answer> => {
        const sentMs = now();
        try {
          const examination = await ask(host, patienceMs, withDeadline(patienceMs, signal));
          // When it was asked it had not begun to look yet: half of the way is at the most half of all of it.
          const sample = { hostId: host.id, sentMs, receivedMs: now(), theirMs: examination.now };
          return { host, sample, examination };
        } catch (error) {
          return { host, error: messageOf(error) };
        }
      }),
    );
  }

  async #work(signal: AbortSignal) {
    const { store, now } = this.#deps;
    const claims = await store.list(cellKeys.claims, { signal });
    const jobs = claims.entries.reduce((sum, { key, value }) => sum + decodeJson(claimSchema, value, key).jobs, 0);
    if (jobs > mostJobs) {
      throw new FlynnError('exhausted', `${jobs} jobs are too many to look at from here: flynn doctor does`);
    }
    const [workloads, evaluations, statuses, assignments, hosts] = await Promise.all(
      [cellKeys.workloads, cellKeys.evaluations, cellKeys.status, cellKeys.assignments, cellKeys.hosts].map(
        async (prefix) => (await store.list(prefix, { signal })).entries,
      ),
    );
    const told = (statuses ?? []).map(({ key, value }) => decodeJson(jobStatusSchema, value, key));
    const names = new Map(told.map(({ workloadId, meta }) => [workloadId, appName(meta)]));
    return workFindings(
      {
        workloads: (workloads ?? []).map(({ key, value }) => decodeJson(workloadSchema, value, key)),
        evaluations: (evaluations ?? []).map(({ key, value }) => decodeJson(evaluationSchema, value, key)),
        statuses: told,
        assignments: new Map(
          (assignments ?? []).map(({ key, value }) => [
            key.slice(cellKeys.assignments.length),
            decodeJson(assignmentSchema, value, key),
          ]),
        ),
        present: new Set((hosts ?? []).map(({ key }) => key.slice(cellKeys.hosts.length))),
        nameOf: (id) => names.get(id) ?? `workload ${id}`,
      },
      now(),
    );
  }
}

/** One behind NAT never becomes one. */
function mayBeMember(record: HostRecord | undefined): boolean {
  return record?.attributes[siteAttribute] === undefined;
}

function isSettled(record: HostRecord | undefined, now: number): boolean {
  return record !== undefined && now - record.startedAt >= settleMs;
}

function appName(meta: Readonly<Record<string, string>>): string | undefined {
  const app = meta['flynn.app_name'];
  const type = meta['flynn.type'];
  return app === undefined ? undefined : `app ${app}${type === undefined ? '' : ` (${type})`}`;
}

/** Of hosts that say so. */
function versionsIn(answers: readonly Answer[]): { id: string; version: string }[] {
  return answers.flatMap(({ host: { id }, examination }) =>
    examination === undefined ? [] : [{ id, version: examination.version }],
  );
}

function verdictOf({ host, examination, error }: Answer): Verdict {
  if (examination !== undefined) return examination;
  const what = `its agent does not answer at ${host.address}:${host.apiPort}: ${error ?? 'it said nothing'}`;
  return {
    findings: [
      {
        check: 'hosts',
        severity: 'critical',
        subject: `host ${host.id}`,
        isAway: true,
        what,
        why: 'it holds its lease and so keeps its jobs, but nobody can look at them or reach their logs',
        remedy: `see whether the machine answers and TCP port ${host.apiPort} is open; on it: flynn-host status`,
      },
    ],
    unknown: [],
  };
}

function examinedHost(
  { id, record, settings }: KnownHost,
  jobs: number,
  answers: readonly Answer[],
  askingId: string,
): ExaminedHost {
  if (record === undefined) return { id, state: 'away', jobs };
  const answer = answers.find(({ host }) => host.id === id);
  const examination = answer?.examination;
  const own = answers.find(({ host }) => host.id === askingId)?.sample;
  const offset = offsetOf(answer?.sample, own);
  const wanted = settings.drain ? 'draining' : settings.cordoned || record.cordoned ? 'cordoned' : 'up';
  return {
    id,
    state: examination === undefined ? 'silent' : wanted,
    address: record.address,
    startedAt: record.startedAt,
    jobs,
    ...(offset === undefined ? {} : { clockOffsetMs: offset }),
    ...(examination === undefined ? {} : { agent: examination }),
  };
}

function offsetOf(sample: ClockSample | undefined, own: ClockSample | undefined): number | undefined {
  if (sample === undefined) return undefined;
  const of = ({ theirMs, sentMs, receivedMs }: ClockSample): number => theirMs - (sentMs + receivedMs) / 2;
  return Math.round(of(sample) - (own === undefined ? 0 : of(own)));
}

function examinedMember(
  { endpoint, answer }: EtcdStatus['members'][number],
  hosts: readonly ExaminedHost[],
): ExaminedMember {
  const hostId = hosts.find(({ address }) => address === new URL(endpoint).hostname)?.id;
  const where = { endpoint, ...(hostId === undefined ? {} : { hostId }) };
  if (answer === undefined) return { ...where, isHealthy: false, isLeader: false };
  const { id, version, leaderId, sizeBytes, usedBytes } = answer;
  return { ...where, isHealthy: leaderId !== undefined, isLeader: id === leaderId, version, sizeBytes, usedBytes };
}
