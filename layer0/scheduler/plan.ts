/** Which changes on which hosts carry out a decision? */
import type { AssignedJob, Evaluation, JobStatus, Workload } from './cell.ts';
import { Rooms, assignedClaim, familyOf, findObstacle } from './feasible.ts';
import type { Room } from './feasible.ts';
import type { Candidate, Rank } from './rank.ts';
import type { Decision, Slot } from './reconcile.ts';
import type { Cell, PlacedJob } from './snapshot.ts';

export type HostChange = Readonly<{ add: AssignedJob[]; stop: PlacedJob[]; release: PlacedJob[] }>;

export type Outcome = Readonly<{
  evaluation: Evaluation;
  state: 'complete' | 'blocked';
  reason?: string;
  /** Blocked only until then. */
  retryAt?: number;
  /** The workload had its one run: its count becomes 0. */
  isFinished?: boolean;
}>;

/** What one scheduler proposes: made on one state of the cell, and good for no other state of the hosts it touches. */
export type Plan = Readonly<{ id: string; hosts: ReadonlyMap<string, HostChange>; outcomes: readonly Outcome[] }>;

export type PlanContext = Readonly<{
  now: number;
  newId: () => string;
  random: () => number;
  /** Hosts that are gone and will not be waited for. */
  lostHosts: ReadonlySet<string>;
  /** Shared by the plans that are to be committed together. */
  rooms: Rooms;
}>;

export function makePlan(
  options: { evaluation: Evaluation; workload: Workload | undefined; decision: Decision; rank: Rank },
  cell: Cell,
  context: PlanContext,
): Plan {
  const { evaluation, workload, decision } = options;
  const { rooms, newId, now } = context;
  const hosts = new Map<string, HostChange>();
  const changeOf = (hostId: string): HostChange => {
    const change = hosts.get(hostId) ?? { add: [], stop: [], release: [] };
    hosts.set(hostId, change);
    return change;
  };
  for (const one of decision.release) {
    changeOf(one.hostId).release.push(one);
    rooms.get(one.hostId)?.remove(one.job.id);
  }
  for (const one of decision.stop) changeOf(one.hostId).stop.push(one);

  const planId = newId();
  const unplaced = new Map<string, number>();
  let waiting = 0;
  if (workload !== undefined && decision.place.length > 0) {
    const neighbours = new Neighbours(workload, cell, decision);
    for (const slot of decision.place) {
      const found = findHost(slot, workload, neighbours, options.rank, context);
      if (found.room === undefined) {
        waiting += 1;
        // All other slots that may go anywhere find the same.
        for (const [why, count] of found.obstacles) unplaced.set(why, Math.max(count, unplaced.get(why) ?? 0));
        continue;
      }
      const hostId = found.room.host.id;
      const job: AssignedJob = {
        id: `${hostId}-${newId()}`,
        workloadId: workload.id,
        version: workload.version,
        index: slot.index,
        desired: 'run',
        template: workload.template,
        createdAt: now,
      };
      found.room.add(job.id, assignedClaim(job, planId), familyOf(workload.id, workload.template));
      neighbours.add(found.room);
      changeOf(hostId).add.push(job);
    }
  }
  const staying = cell.jobsOf(evaluation.workloadId).length - decision.release.length;
  const placed = staying + decision.place.length - waiting;
  return { id: planId, hosts, outcomes: [outcomeOf(evaluation, decision, { placed, waiting, unplaced, now })] };
}

function outcomeOf(
  evaluation: Evaluation,
  decision: Decision,
  result: { placed: number; waiting: number; unplaced: ReadonlyMap<string, number>; now: number },
): Outcome {
  const { retryAt } = decision;
  if (retryAt !== undefined) {
    return {
      evaluation,
      state: 'blocked',
      reason: 'jobs keep failing: the next one is started after a pause',
      retryAt,
    };
  }
  if (result.waiting > 0) {
    const why = [...result.unplaced].map(
      ([obstacle, hosts]) => `${obstacle} (${hosts} ${hosts === 1 ? 'host' : 'hosts'})`,
    );
    const reasons = why.length === 0 ? 'there is no host' : why.sort().join(', ');
    return { evaluation, state: 'blocked', reason: `${result.placed} placed, ${result.waiting} waiting: ${reasons}` };
  }
  return decision.isFinished === true
    ? { evaluation, state: 'complete', isFinished: true }
    : { evaluation, state: 'complete' };
}

function findHost(
  slot: Slot,
  workload: Workload,
  neighbours: Neighbours,
  rank: Rank,
  { rooms, random, lostHosts }: PlanContext,
): { room: Room | undefined; obstacles: ReadonlyMap<string, number> } {
  const obstacles = new Map<string, number>();
  const candidates: Candidate[] = [];
  const open = slot.hostId === undefined ? rooms.all() : [rooms.get(slot.hostId)];
  for (const room of open) {
    if (room === undefined || lostHosts.has(room.host.id)) continue;
    const obstacle = findObstacle(room, workload);
    if (obstacle === undefined) candidates.push(neighbours.candidate(room, slot));
    else obstacles.set(obstacle, (obstacles.get(obstacle) ?? 0) + 1);
  }
  return { room: rank(candidates, random)?.room, obstacles };
}

/** Where the workload's other jobs are, for spreading, and where it failed. */
class Neighbours {
  readonly #onHost = new Map<string, number>();
  readonly #inZone = new Map<string, number>();
  readonly #failures = new Map<string, number>();

  constructor(workload: Workload, cell: Cell, decision: Decision) {
    const leaving = new Set([...decision.release, ...decision.stop].map(({ job }) => job.id));
    for (const { job, hostId } of cell.jobsOf(workload.id)) {
      // The old version makes room anyway: spreading is about the jobs that stay.
      if (leaving.has(job.id) || job.desired === 'stop' || job.version !== workload.version) continue;
      const host = cell.hosts.get(hostId)?.value;
      this.#count(hostId, host?.attributes['zone']);
    }
    for (const status of cell.statusesOf(workload.id)) {
      if (status.version === workload.version && isFailure(status)) increment(this.#failures, status.hostId);
    }
  }

  add({ host }: Room): void {
    this.#count(host.id, host.attributes['zone']);
  }

  candidate(room: Room, slot: Slot): Candidate {
    const zone = room.host.attributes['zone'];
    return {
      room,
      sameWorkload: this.#onHost.get(room.host.id) ?? 0,
      sameZone: zone === undefined ? 0 : (this.#inZone.get(zone) ?? 0),
      failures: this.#failures.get(room.host.id) ?? 0,
      isPreferred: slot.preferHostId === room.host.id,
    };
  }

  #count(hostId: string, zone: string | undefined): void {
    increment(this.#onHost, hostId);
    if (zone !== undefined) increment(this.#inZone, zone);
  }
}

function isFailure(status: JobStatus): boolean {
  return status.isFinal && (status.state === 'failed' || status.state === 'crashed');
}

function increment(map: Map<string, number>, key: string): void {
  map.set(key, (map.get(key) ?? 0) + 1);
}

/** Several plans made on the same rooms, as one. */
export function mergePlans(plans: readonly Plan[], id: string): Plan {
  const hosts = new Map<string, HostChange>();
  for (const plan of plans) {
    for (const [hostId, { add, stop, release }] of plan.hosts) {
      const change = hosts.get(hostId) ?? { add: [], stop: [], release: [] };
      change.add.push(...add);
      change.stop.push(...stop);
      change.release.push(...release);
      hosts.set(hostId, change);
    }
  }
  return { id, hosts, outcomes: plans.flatMap((plan) => plan.outcomes) };
}
