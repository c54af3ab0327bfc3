/** Is a state of the cell one that may be? For tests and for checking a history. */
import type { Claim } from './cell.ts';
import type { PlacedJob } from './cell-view.ts';
import type { CellColumns } from './columns/cell-columns.ts';
import { hostAttribute } from './placement/host-classes.ts';

/** What is wrong, in words; empty when nothing is. Holds at every revision, whoever schedules and whatever is lost. */
export function findViolations(cell: CellColumns): string[] {
  const hosts = new Set([...cell.claims.keys(), ...cell.hostsWithJobs()]);
  const workloads = new Set([...cell.workloadsWithJobs(), ...[...cell.evaluations.values()].map(workloadOfEvaluation)]);
  return [
    ...[...hosts].flatMap((hostId) => hostViolations(cell, hostId)),
    ...[...workloads].flatMap((workloadId) => workloadViolations(cell, workloadId)),
  ];
}

function workloadOfEvaluation({ value }: { value: { workloadId: string } }): string {
  return value.workloadId;
}

/** Claims ≤ capacity; a port is one family's; the claim is the sum of what is assigned. */
export function hostViolations(cell: CellColumns, hostId: string): string[] {
  const violations: string[] = [];
  const claim = cell.claims.get(hostId)?.value;
  const capacity = cell.isUnsure(hostId) ? undefined : cell.hosts.get(hostId)?.value.capacity;
  const jobs = cell.jobsOn(hostId);
  if (claim !== undefined && capacity !== undefined) {
    if (claim.memoryBytes > capacity.memoryBytes) {
      violations.push(`${hostId} has ${capacity.memoryBytes} bytes of memory and ${claim.memoryBytes} are claimed`);
    }
    if (claim.cpuMillis > capacity.cpuMillis) {
      violations.push(`${hostId} has ${capacity.cpuMillis} mCPU and ${claim.cpuMillis} are claimed`);
    }
  }
  if (claim === undefined) {
    if (jobs.length > 0) violations.push(`${hostId} has ${jobs.length} jobs and no claim`);
    return violations;
  }
  const sum = (of: (job: PlacedJob) => number) => jobs.reduce((all, job) => all + of(job), 0);
  const sums = { memoryBytes: sum((job) => job.demand.memoryBytes), cpuMillis: sum((job) => job.demand.cpuMillis) };
  if (claim.jobs !== jobs.length) violations.push(`${hostId} claims ${claim.jobs} jobs and has ${jobs.length}`);
  for (const what of ['memoryBytes', 'cpuMillis'] as const) {
    if (claim[what] !== sums[what]) violations.push(`${hostId} claims ${claim[what]} ${what}, its jobs ${sums[what]}`);
  }
  return [...violations, ...portViolations(hostId, claim, jobs)];
}

function portViolations(hostId: string, claim: Claim, jobs: readonly PlacedJob[]): string[] {
  const violations: string[] = [];
  const held = new Map<number, { family: string; jobs: number }>();
  for (const { demand } of jobs) {
    for (const port of demand.hostPorts) {
      const holder = held.get(port) ?? { family: demand.family, jobs: 0 };
      if (holder.family !== demand.family) {
        violations.push(`port ${port} of ${hostId} is held by ${holder.family} and ${demand.family}`);
      }
      held.set(port, { family: holder.family, jobs: holder.jobs + 1 });
    }
  }
  const claimed = Object.entries(claim.ports).map(([port, { family, jobs: count }]) => `${port} ${family} ${count}`);
  const actual = [...held].map(([port, { family, jobs: count }]) => `${port} ${family} ${count}`);
  if (claimed.sort().join() !== actual.sort().join()) {
    violations.push(`${hostId} claims the ports [${claimed.join()}], its jobs have [${actual.join()}]`);
  }
  return violations;
}

/**
 * No job twice; no singleton's slot twice on hosts that are there; no two jobs where they would share volumes that are to be apart;
 * one evaluation waits at most, and says why.
 */
export function workloadViolations(cell: CellColumns, workloadId: string): string[] {
  const violations: string[] = [];
  const isSingleton = cell.workload(workloadId)?.value.singleton === true;
  const slots = new Map<number, string>();
  for (const job of cell.jobsOf(workloadId)) {
    if (!isSingleton || job.status?.isFinal === true || !cell.hosts.has(job.hostId)) continue;
    const other = slots.get(job.index);
    if (other !== undefined) violations.push(`slot ${job.index} of ${workloadId} has the jobs ${other} and ${job.id}`);
    slots.set(job.index, job.id);
  }
  for (const hostId of hostsShared(cell, workloadId)) {
    violations.push(`${hostId} has two jobs of ${workloadId}, whose volumes are to be on hosts of their own`);
  }
  const blocked = cell.evaluationsOf(workloadId).filter(({ value }) => value.state === 'blocked');
  if (blocked.length > 1) violations.push(`${workloadId} has ${blocked.length} blocked evaluations`);
  for (const { value } of blocked) {
    if (value.reason === undefined) violations.push(`evaluation ${value.id} is blocked and does not say why`);
  }
  return violations;
}

/** Hosts with two jobs that may run, of a workload with volumes that has no two on one. */
function hostsShared(cell: CellColumns, workloadId: string): Set<string> {
  const { constraints = [], demand } = cell.workload(workloadId)?.value ?? {};
  const isApart = constraints.some(({ operator, attribute }) => operator === 'distinct' && attribute === hostAttribute);
  if (!isApart || demand === undefined || demand.volumes.length === 0) return new Set();
  const hosts = cell.jobsOf(workloadId).flatMap(({ hostId, status }) => (status?.isFinal === true ? [] : [hostId]));
  return new Set(hosts.filter((hostId, at) => hosts.indexOf(hostId) !== at));
}
