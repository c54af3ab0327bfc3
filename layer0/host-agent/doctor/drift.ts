/** Is the host as it should be: does what is assigned run, is nothing there that nobody wants, does the network stay? */
import type { HostJob, JobStatus } from '@flynn/scheduler/cell';
import type { Container } from '../engine/engine.ts';
import { label } from '../engine/labels.ts';
import type { Found } from './finding.ts';

export type DriftFacts = Readonly<{
  assigned: readonly Pick<HostJob, 'id' | 'desired' | 'createdAt' | 'workloadId'>[];
  statuses: readonly JobStatus[];
  /** Without those of resident jobs. */
  containers: readonly Pick<Container, 'id' | 'name' | 'labels' | 'state' | 'createdAtMs'>[];
  /** When the network was found changed by somebody, and put right. */
  networkRepairs: readonly number[];
  /** What cannot be put right, and why. */
  networkProblems: readonly string[];
}>;

/** What is under way takes its time: images are fetched, jobs stop for half a minute. */
const patienceMs = 5 * 60_000;
const restartsMark = 5;
const hourMs = 3_600_000;
const repairsMark = 3;
/** So many stray containers are named with what to do. */
const strayNames = 5;

export function driftFindings(subject: string, facts: DriftFacts, now: number): Found[] {
  return [
    ...idleJobs(subject, facts, now),
    ...crashingJobs(subject, facts),
    ...strayContainers(subject, facts, now),
    ...networkFindings(subject, facts, now),
  ];
}

function idleJobs(subject: string, { assigned, statuses }: DriftFacts, now: number): Found[] {
  const statusOf = new Map(statuses.map((status) => [status.id, status]));
  const idle = assigned.filter(({ id, desired, createdAt }) => {
    const state = statusOf.get(id)?.state ?? 'pending';
    return desired === 'run' && now - createdAt > patienceMs && (state === 'pending' || state === 'starting');
  });
  return perWorkload(idle, ({ id, workloadId }) => nameOf(statusOf.get(id), workloadId)).map(
    ({ name, jobs: [first, ...more] }) => {
      const error = first === undefined ? undefined : statusOf.get(first.id)?.error;
      const since = Math.min(
        ...[first, ...more].map((job) => {
          const status = statusOf.get(job?.id ?? '');
          return status?.unhealthySince ?? status?.startedAt ?? job?.createdAt ?? now;
        }),
      );
      return ofApp(statusOf.get(first?.id ?? ''), {
        severity: 'critical',
        subject,
        matter: `idle ${typeOf(statusOf.get(first?.id ?? '')) ?? first?.workloadId ?? ''}`,
        what: `${counted(1 + more.length, 'job')} of ${name} ${more.length === 0 ? 'is' : 'are'} to run there and ${more.length === 0 ? 'does' : 'do'} not${error === undefined ? '' : `: ${error}`}`,
        since: new Date(since).toISOString(),
        why: 'the cell has given it its place: nobody else runs it',
        remedy: `look why: flynn-host inspect ${first?.id ?? ''}, flynn-host log ${first?.id ?? ''} there; flynn-host drain has all jobs of this host run elsewhere`,
      });
    },
  );
}

function crashingJobs(subject: string, { statuses }: DriftFacts): Found[] {
  const crashing = statuses.filter(
    ({ isFinal, state, restarts }) =>
      !isFinal && restarts >= restartsMark && (state === 'crashed' || state === 'starting'),
  );
  return perWorkload(crashing, (status) => nameOf(status, status.workloadId)).map(({ name, jobs }) => {
    const [first] = jobs;
    const code = first?.exitCode === undefined ? '' : `, the last time with exit code ${first.exitCode}`;
    const why = first?.error === undefined ? '' : `: ${first.error}`;
    return ofApp(first, {
      severity: 'warning',
      subject,
      matter: `crashing ${typeOf(first) ?? first?.workloadId ?? ''}`,
      what: `${counted(jobs.length, 'job')} of ${name} ${jobs.length === 1 ? 'ends' : 'end'} again and again${code}${why}`,
      since: new Date(Math.min(...jobs.map(({ createdAt }) => createdAt))).toISOString(),
      why: 'it is started again with growing pauses, and serves nobody',
      remedy: `its last words: flynn-host log ${first?.id ?? ''} there, or flynn -a APP log; back to the release before: flynn -a APP rollback`,
    });
  });
}

function strayContainers(subject: string, { assigned, statuses, containers }: DriftFacts, now: number): Found[] {
  const known = new Set([...assigned, ...statuses].map(({ id }) => id));
  const strays = containers.filter(({ state, labels, createdAtMs }) => {
    const job = labels[label.job];
    return state === 'running' && job !== undefined && !known.has(job) && now - createdAtMs > patienceMs;
  });
  const [first, ...more] = strays.toSorted((a, b) => a.createdAtMs - b.createdAtMs);
  if (first === undefined) return [];
  const named = [first, ...more.slice(0, strayNames - 1)].map(({ name }) => name).join(' ');
  return [
    {
      severity: 'warning',
      subject,
      matter: 'containers',
      what:
        more.length === 0
          ? `the container ${first.name} runs, and nobody wants it`
          : `${strays.length} containers run that nobody wants, like ${first.name}`,
      since: new Date(first.createdAtMs).toISOString(),
      why: 'each takes memory that the cell gives to others, and may do work that another job does too',
      remedy: `the agent should have removed ${more.length === 0 ? 'it' : 'them'}: see its log, then: docker rm -f ${named}`,
    },
  ];
}

function networkFindings(subject: string, { networkRepairs, networkProblems }: DriftFacts, now: number): Found[] {
  const findings: Found[] = networkProblems.map((problem) => ({
    severity: 'critical',
    subject,
    matter: 'network problems',
    what: problem,
    why: 'containers there may not reach each other, or reach what they should not',
    remedy: 'what it says is to be put right by hand; the agent tries again every few seconds',
  }));
  const recent = networkRepairs.filter((at) => now - at < hourMs);
  const [first] = recent;
  if (first === undefined || recent.length < repairsMark) return findings;
  return [
    ...findings,
    {
      severity: 'warning',
      subject,
      matter: 'network changes',
      what: `something changed its bridge, routes or rules ${recent.length} times within an hour`,
      since: new Date(first).toISOString(),
      why: 'each time connections break until the agent has put it right',
      remedy:
        'find what does it (another firewall’s service, a cron job): the agent’s log tells what was changed and when',
    },
  ];
}

function typeOf(status: JobStatus | undefined): string | undefined {
  return status?.meta['flynn.type'];
}

function nameOf(status: JobStatus | undefined, workloadId: string): string {
  const app = status?.meta['flynn.app_name'];
  const type = typeOf(status);
  return app === undefined ? `workload ${workloadId}` : `app ${app}${type === undefined ? '' : ` (${type})`}`;
}

/** Its app is named apart from the host, for those who are told of that app alone. */
function ofApp(status: JobStatus | undefined, found: Found): Found {
  const app = status?.meta['flynn.app_name'];
  return app === undefined ? found : { ...found, app };
}

function perWorkload<T extends { workloadId: string }>(
  jobs: readonly T[],
  name: (job: T) => string,
): { name: string; jobs: T[] }[] {
  const groups = Map.groupBy(jobs, ({ workloadId }) => workloadId);
  return [...groups.values()].flatMap((group) => {
    const [first] = group;
    return first === undefined ? [] : [{ name: name(first), jobs: group }];
  });
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}
