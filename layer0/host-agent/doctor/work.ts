/** Does the cell's work get done: is every evaluation looked at, has every job a place, is every host heard of? */
import { eitherCommand } from '@flynn/kit/operator-commands';
import type { Assignment, JobStatus, Workload } from '@flynn/scheduler/cell';
import type { Evaluation } from '@flynn/scheduler/evaluation';
import type { KnownHost } from '../api.ts';
import type { Found } from './finding.ts';

export type WorkFacts = Readonly<{
  workloads: readonly Workload[];
  evaluations: readonly Evaluation[];
  statuses: readonly JobStatus[];
  /** By `<host>/<plan>`. */
  assignments: ReadonlyMap<string, Assignment>;
  /** Ids of hosts that are heard of. */
  present: ReadonlySet<string>;
  /** How people call a workload: `app blog (web)`. */
  nameOf: (workloadId: string) => string;
}>;

const marks = { pendingMs: 30_000, criticalMs: 5 * 60_000, blockedMs: 60_000, untoldMs: 60_000 } as const;
/** Beyond so many of one sort they are counted. */
const listed = 10;

export function workFindings(facts: WorkFacts, now: number): Found[] {
  return [...pending(facts, now), ...blocked(facts, now), ...unplaced(facts, now), ...untold(facts, now)];
}

function pending({ evaluations, nameOf }: WorkFacts, now: number): Found[] {
  const dueAt = ({ createdAt, updatedAt, waitUntil }: Evaluation) =>
    Math.max(createdAt, updatedAt ?? 0, waitUntil ?? 0);
  const late = evaluations
    .filter((one) => one.state === 'pending' && now - dueAt(one) > marks.pendingMs)
    .toSorted((a, b) => dueAt(a) - dueAt(b));
  const [oldest] = late;
  if (oldest === undefined) return [];
  const sinceMs = dueAt(oldest);
  return [
    {
      severity: now - sinceMs > marks.criticalMs ? 'critical' : 'warning',
      subject: 'schedulers',
      what: `${late.length} evaluation${late.length === 1 ? ' waits' : 's wait'} to be looked at; the oldest is of ${nameOf(oldest.workloadId)}`,
      since: new Date(sinceMs).toISOString(),
      why: 'what changed there is not carried out: no scheduler takes it up',
      remedy:
        'flynn eval list --state pending; schedulers run in the host agents: "flynn-host status" on each tells of them',
    },
  ];
}

function blocked({ evaluations, nameOf }: WorkFacts, now: number): Found[] {
  const waiting = evaluations.filter(
    ({ state, createdAt }) => state === 'blocked' && now - createdAt > marks.blockedMs,
  );
  const newest = new Map(waiting.toSorted((a, b) => a.createdAt - b.createdAt).map((one) => [one.workloadId, one]));
  return limited(
    [...newest.values()].map(({ workloadId, reason, createdAt }) => ({
      severity: 'warning',
      subject: nameOf(workloadId),
      what: `jobs of it wait for a place: ${reason ?? 'nobody said why'}`,
      since: new Date(createdAt).toISOString(),
      why: 'less of it runs than is wanted',
      remedy: `make room: add a host by ${eitherCommand('join')}, scale something down, or ask for less: flynn limit set, flynn constraint set`,
    })),
    'jobs of it wait for a place',
  );
}

/** Of a service that nobody is busy with, fewer jobs have a place than are wanted: then somebody forgot it. */
function unplaced({ workloads, evaluations, assignments, nameOf }: WorkFacts, now: number): Found[] {
  const busy = new Set(
    evaluations
      .filter(({ state, updatedAt, createdAt }) => {
        const isOpen = state === 'pending' || state === 'blocked';
        return isOpen || now - Math.max(createdAt, updatedAt ?? 0) < marks.untoldMs;
      })
      .map(({ workloadId }) => workloadId),
  );
  const placed = new Map<string, number>();
  for (const { groups } of assignments.values()) {
    for (const { workloadId, jobs } of groups) {
      const running = jobs.filter(({ desired }) => desired === 'run').length;
      placed.set(workloadId, (placed.get(workloadId) ?? 0) + running);
    }
  }
  const short = workloads.filter(
    ({ id, kind, count }) => kind === 'service' && !busy.has(id) && (placed.get(id) ?? 0) < count,
  );
  return limited(
    short.map(({ id, count }) => ({
      severity: 'critical',
      subject: nameOf(id),
      what: `${count - (placed.get(id) ?? 0)} of ${count} jobs have no place, and nobody is looking for one`,
      why: 'less of it runs than is wanted, and it stays so',
      remedy: 'have it looked at again: scale it to another count and back, or flynn host rebalance',
    })),
    'jobs have no place',
  );
}

/** Placed on a host that is there, and the host says nothing of it. */
function untold({ assignments, statuses, present }: WorkFacts, now: number): Found[] {
  const told = new Set(statuses.map(({ id }) => id));
  const silent = new Map<string, number[]>();
  for (const [key, { groups }] of assignments) {
    const [hostId = ''] = key.split('/');
    if (!present.has(hostId)) continue;
    for (const { jobs } of groups) {
      for (const { id, desired, createdAt } of jobs) {
        if (desired !== 'run' || told.has(id) || now - createdAt < marks.untoldMs) continue;
        silent.set(hostId, [...(silent.get(hostId) ?? []), createdAt]);
      }
    }
  }
  return [...silent].map(([hostId, since]) => ({
    severity: 'critical',
    subject: `host ${hostId}`,
    what: `${since.length} job${since.length === 1 ? '' : 's'} placed there have not been begun with`,
    since: new Date(Math.min(...since)).toISOString(),
    why: 'its agent is heard of, and does not follow what it is told',
    remedy: `its agent’s log tells why (flynn-host collect-debug there); ${eitherCommand('up')} there starts it anew`,
  }));
}

const drainMark = 3_600_000;

export function hostFindings(hosts: readonly KnownHost[], jobsOn: (hostId: string) => number, now: number): Found[] {
  return hosts.flatMap(({ id, record, settings }): Found[] => {
    if (record === undefined) {
      return [
        {
          severity: 'critical',
          subject: `host ${id}`,
          isAway: true,
          what: 'it is away: nothing was heard of it within its lease',
          why: 'what it ran runs elsewhere where there is room; what has volumes there waits for it',
          remedy: `bring it back, then it goes on by itself; if it is gone for good: flynn host remove ${id} --yes`,
        },
      ];
    }
    const { drain } = settings;
    const left = jobsOn(id);
    if (drain === undefined || left === 0 || now - drain.startedAt < drainMark) return [];
    return [
      {
        severity: 'warning',
        subject: `host ${id}`,
        matter: 'drain',
        what: `it is being drained, and ${left} job${left === 1 ? '' : 's'} of it found no other place`,
        since: new Date(drain.startedAt).toISOString(),
        why: 'nobody can take the host away until it is empty',
        remedy: `see what holds them: flynn host show ${id}, flynn eval list --state blocked; or flynn host undrain ${id}`,
      },
    ];
  });
}

function limited(findings: readonly Found[], what: string): Found[] {
  const [first] = findings;
  const more = findings.length - listed;
  if (first === undefined || more <= 0) return [...findings];
  const rest: Found = { ...first, subject: 'schedulers', what: `of ${more} more workloads ${what}` };
  return [...findings.slice(0, listed), rest];
}
