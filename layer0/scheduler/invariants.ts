/** Is a state of the cell one that may be? For tests and for checking a history. */
import { familyOf } from './feasible.ts';
import { splitHostKey } from './snapshot.ts';
import type { Cell } from './snapshot.ts';

/** What is wrong, in words; empty when nothing is. Holds at every revision, whoever schedules and whatever is lost. */
export function findViolations(cell: Cell): string[] {
  return [...claimViolations(cell), ...agreementViolations(cell), ...evaluationViolations(cell)];
}

function claimViolations(cell: Cell): string[] {
  const violations: string[] = [];
  for (const [hostId, { value: claim }] of cell.claims) {
    const capacity = cell.hosts.get(hostId)?.value.capacity;
    let memoryBytes = 0;
    let cpuMillis = 0;
    const families = new Map<number, string>();
    for (const [jobId, job] of Object.entries(claim.jobs)) {
      memoryBytes += job.resources.memoryBytes;
      cpuMillis += job.resources.cpuMillis;
      const family = familyOf(job.workloadId, cell.findJob(hostId, jobId)?.template);
      for (const port of job.hostPorts) {
        const holder = families.get(port) ?? family;
        if (holder !== family) violations.push(`port ${port} of ${hostId} is held by ${holder} and ${family}`);
        families.set(port, family);
      }
    }
    if (capacity === undefined) continue;
    if (memoryBytes > capacity.memoryBytes) {
      violations.push(`${hostId} has ${capacity.memoryBytes} bytes of memory and ${memoryBytes} are claimed`);
    }
    if (cpuMillis > capacity.cpuMillis) {
      violations.push(`${hostId} has ${capacity.cpuMillis} mCPU and ${cpuMillis} are claimed`);
    }
  }
  return violations;
}

function agreementViolations(cell: Cell): string[] {
  const violations: string[] = [];
  const assigned = new Set<string>();
  for (const [key, { value: assignment }] of cell.assignments) {
    const { hostId, rest: planId } = splitHostKey(key);
    if (assignment.planId !== planId) violations.push(`assignment ${key} says it is of plan ${assignment.planId}`);
    if (assignment.jobs.length === 0) violations.push(`assignment ${key} is empty`);
    for (const job of assignment.jobs) {
      if (assigned.has(job.id)) violations.push(`job ${job.id} is assigned twice`);
      assigned.add(job.id);
      if (!job.id.startsWith(`${hostId}-`)) violations.push(`job ${job.id} is assigned to ${hostId}`);
      const claimed = cell.claims.get(hostId)?.value.jobs[job.id];
      if (claimed === undefined) violations.push(`job ${job.id} is assigned but not claimed`);
      else if (claimed.planId !== planId || claimed.workloadId !== job.workloadId) {
        violations.push(
          `job ${job.id} is claimed for plan ${claimed.planId} of ${claimed.workloadId}, not ${planId} of ${job.workloadId}`,
        );
      }
    }
  }
  for (const [hostId, { value: claim }] of cell.claims) {
    for (const jobId of Object.keys(claim.jobs)) {
      if (!assigned.has(jobId)) violations.push(`job ${jobId} is claimed on ${hostId} but not assigned`);
    }
  }
  return violations;
}

/** One key per workload is at most one evaluation per workload, if it is about that workload. */
function evaluationViolations(cell: Cell): string[] {
  return [...cell.evaluations].flatMap(([workloadId, { value }]) => {
    if (value.workloadId !== workloadId) return [`the evaluation of ${workloadId} is about ${value.workloadId}`];
    return value.state === 'blocked' && value.reason === undefined
      ? [`the evaluation of ${workloadId} is blocked and does not say why`]
      : [];
  });
}
