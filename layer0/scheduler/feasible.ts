/** Does a job fit on a host, and if not, why? */
import type { AssignedJob, Claim, HostRecord, JobTemplate, Resources, Workload } from './cell.ts';
import type { Cell } from './snapshot.ts';

/** Jobs of one family may listen on the same port of a host: an update runs two versions side by side. */
export function familyOf(workloadId: string, template: Pick<JobTemplate, 'meta'> | undefined): string {
  const app = template?.meta['flynn.app'];
  return app === undefined ? workloadId : `${app}/${template?.meta['flynn.type'] ?? ''}`;
}

export function hostPortsOf(template: JobTemplate): number[] {
  return template.hostNetwork ? [...new Set(template.ports.map(({ port }) => port))].sort((a, b) => a - b) : [];
}

type ClaimedJob = Claim['jobs'][string];

/** What is left of one host while a plan is being made. */
export class Room {
  readonly host: HostRecord;
  #memoryBytes: number;
  #cpuMillis: number;
  readonly #ports = new Map<number, Map<string, string>>();
  readonly #jobs = new Map<string, { claimed: ClaimedJob; family: string }>();

  constructor(host: HostRecord) {
    this.host = host;
    this.#memoryBytes = host.capacity.memoryBytes;
    this.#cpuMillis = host.capacity.cpuMillis;
  }

  get free(): Resources {
    return { memoryBytes: this.#memoryBytes, cpuMillis: this.#cpuMillis };
  }

  /** The part of the host that is claimed, by whichever resource is scarcer, from 0 to 1. */
  get fill(): number {
    const { memoryBytes, cpuMillis } = this.host.capacity;
    const memory = 1 - this.#memoryBytes / memoryBytes;
    return cpuMillis === 0 ? memory : Math.max(memory, 1 - this.#cpuMillis / cpuMillis);
  }

  get jobCount(): number {
    return this.#jobs.size;
  }

  add(jobId: string, claimed: ClaimedJob, family: string): void {
    this.remove(jobId);
    this.#jobs.set(jobId, { claimed, family });
    this.#memoryBytes -= claimed.resources.memoryBytes;
    this.#cpuMillis -= claimed.resources.cpuMillis;
    for (const port of claimed.hostPorts) {
      const holders = this.#ports.get(port) ?? new Map<string, string>();
      this.#ports.set(port, holders.set(jobId, family));
    }
  }

  remove(jobId: string): void {
    const job = this.#jobs.get(jobId);
    if (job === undefined) return;
    this.#jobs.delete(jobId);
    this.#memoryBytes += job.claimed.resources.memoryBytes;
    this.#cpuMillis += job.claimed.resources.cpuMillis;
    for (const port of job.claimed.hostPorts) this.#ports.get(port)?.delete(jobId);
  }

  /** The port another family holds, if any. */
  takenPort(ports: readonly number[], family: string): number | undefined {
    return ports.find((port) => [...(this.#ports.get(port)?.values() ?? [])].some((holder) => holder !== family));
  }
}

/** The rooms of all hosts that are there, made as they are asked for. One set lasts for one plan. */
export class Rooms {
  readonly #cell: Cell;
  readonly #rooms = new Map<string, Room>();

  constructor(cell: Cell) {
    this.#cell = cell;
  }

  get(hostId: string): Room | undefined {
    const known = this.#rooms.get(hostId);
    if (known !== undefined) return known;
    const host = this.#cell.hosts.get(hostId)?.value;
    if (host === undefined) return undefined;
    const room = new Room(host);
    for (const [jobId, claimed] of Object.entries(this.#cell.claims.get(hostId)?.value.jobs ?? {})) {
      const template = this.#cell.findJob(hostId, jobId)?.template;
      room.add(jobId, claimed, familyOf(claimed.workloadId, template));
    }
    this.#rooms.set(hostId, room);
    return room;
  }

  /** In the order of their ids, so that the same cell gives the same plan. */
  all(): Room[] {
    return [...this.#cell.hosts.keys()].sort().flatMap((hostId) => this.get(hostId) ?? []);
  }
}

export function matchesConstraints(host: HostRecord, workload: Workload): string | undefined {
  const failed = workload.constraints.find(
    ({ attribute, values }) => !values.includes(host.attributes[attribute] ?? ''),
  );
  return failed === undefined ? undefined : `${failed.attribute} is not ${failed.values.join(' or ')}`;
}

/** Why not, in words for people; undefined when it fits. What concerns the host as such comes before what is full. */
export function findObstacle(room: Room, workload: Workload): string | undefined {
  const { resources } = workload.template;
  const constraint = matchesConstraints(room.host, workload);
  if (constraint !== undefined) return constraint;
  if (room.host.cordoned) return 'cordoned';
  const port = room.takenPort(hostPortsOf(workload.template), familyOf(workload.id, workload.template));
  if (port !== undefined) return `port ${port} is taken`;
  if (resources.memoryBytes > room.free.memoryBytes) return 'memory';
  if (resources.cpuMillis > room.free.cpuMillis) return 'cpu';
  return undefined;
}

export function assignedClaim(job: AssignedJob, planId: string): ClaimedJob {
  return {
    workloadId: job.workloadId,
    resources: job.template.resources,
    hostPorts: hostPortsOf(job.template),
    planId,
  };
}
