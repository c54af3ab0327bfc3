/** Which hosts get the next jobs of a workload? Pure reading: whoever takes the answer claims it in the table. */
import { BestFit, type Slices } from './best-fit.ts';
import type { HostTable } from './host-table.ts';
import { Placement, type HostShare, type PlaceRequest, type Policy } from './request.ts';
import { spreadOut } from './spread.ts';

/** Draws that may find no room before the grids are asked. */
const drawsBeforeGrid = 8;
/** Away from home: jobs of the same size for which a host must still have room afterwards, as long as there are such hosts. */
const awayHeadroom = 2;
/** Slices of which the roomiest is taken, and hosts looked at to guess how much room one has. */
const slicesCompared = 3;
const sampleSize = 32;

/** Each returns how many it placed. */
const placeBy: Readonly<Record<Policy, (placement: Placement, count: number) => number>> = {
  pack,
  spread: spreadOut,
  two_choices: twoChoices,
};

/** The host for one job; undefined when it fits nowhere. */
export function choose(table: HostTable, request: PlaceRequest): number | undefined {
  return chooseMany(table, request, 1)[0]?.index;
}

/** Hosts for up to `count` jobs, as many as fit, each host once. Costs little more for a thousand than for one. */
export function chooseMany(table: HostTable, request: PlaceRequest, count: number): HostShare[] {
  const placement = new Placement(table, request);
  let left = count - placeBy[request.policy](placement, count);
  if (left > 0 && request.penalties !== undefined) placePenalised(placement, left, request.penalties);
  const shares: HostShare[] = [];
  for (const [index, jobs] of placement.placed) shares.push({ index, count: jobs });
  return shares;
}

function fillUp(placement: Placement, count: number, slices: Slices = 'all'): number {
  const { penalties } = placement.request;
  const isAllowed = (index: number): boolean => penalties?.has(index) !== true;
  const hosts = new BestFit(placement, placement.selection.classes, isAllowed, slices);
  let left = count;
  while (left > 0) {
    const index = hosts.next();
    if (index < 0) break;
    const taken = placement.room(index, left);
    if (taken === 0) continue;
    placement.take(index, taken);
    left -= taken;
  }
  return count - left;
}

function pack(placement: Placement, count: number): number {
  const { selection, table } = placement;
  if (selection.listed !== undefined || table.home.of === 1) return fillUp(placement, count);
  const left = count - fillUp(placement, count, 'home');
  return count - left + elsewhere(placement, left);
}

function twoChoices(placement: Placement, count: number): number {
  const { selection, table } = placement;
  if (selection.listed !== undefined) return fillUp(placement, count);
  const own = selection.slices[table.home.slice];
  let left = count - drawHosts(placement, count, own?.core ?? [], 0);
  if (left > 0) left -= drawHosts(placement, left, own?.margin ?? [], 0);
  if (left > 0) left -= fillUp(placement, left, 'home');
  return count - left + elsewhere(placement, left);
}

/**
 * On hosts of other schedulers' slices: in one slice as far as it goes, the roomiest of three random ones, since whoever it
 * belongs to may be planning just now; and there on the margin, which its owner takes last.
 */
function elsewhere(placement: Placement, count: number): number {
  const { random } = placement.request;
  const { slices } = placement.selection;
  let left = count;
  for (const part of ['margin', 'core'] as const) {
    const others = slices.filter((_, slice) => slice !== placement.table.home.slice).map((slice) => slice[part]);
    while (left > 0 && others.length > 0) {
      const drawn = Array.from({ length: slicesCompared }, () => Math.floor(random() * others.length));
      const rooms = drawn.map((at) => meanRoom(placement, others[at]));
      const [hosts = []] = others.splice(drawn[rooms.indexOf(Math.max(...rooms))] ?? 0, 1);
      left -= drawHosts(placement, left, hosts, awayHeadroom);
    }
  }
  if (left > 0) left -= fillUp(placement, left, 'away');
  return count - left;
}

/** Jobs a random host has room for, more or less. */
function meanRoom(placement: Placement, hosts: readonly number[] = []): number {
  if (hosts.length === 0) return 0;
  let room = 0;
  for (let drawn = 0; drawn < sampleSize; drawn++) {
    room += placement.room(hosts[Math.floor(placement.request.random() * hosts.length)] ?? 0, sampleSize);
  }
  return room / sampleSize;
}

/** `headroom`: jobs of the same size for which a host must still have room afterwards. */
function drawHosts(placement: Placement, count: number, hosts: readonly number[], headroom: number): number {
  if (hosts.length === 0) return 0;
  // A job at a time, unless there are so many that every host is drawn several times anyway. Of many at most eight go
  // together: a commit costs as much as it touches hosts.
  const portion = Math.max(1, Math.floor(count / (4 * hosts.length)), Math.min(8, Math.floor(count / 8)));
  let left = count;
  let misses = 0;
  while (left > 0 && misses < drawsBeforeGrid) {
    const one = draw(placement, hosts, headroom);
    const other = draw(placement, hosts, headroom);
    const index = other < 0 || (one >= 0 && fillOf(placement, one) <= fillOf(placement, other)) ? one : other;
    const taken = index < 0 ? 0 : placement.room(index, Math.min(portion, left));
    if (taken === 0) {
      misses += 1;
      continue;
    }
    misses = 0;
    placement.take(index, taken);
    left -= taken;
  }
  return count - left;
}

/** A random host with room, or -1. */
function draw(placement: Placement, hosts: readonly number[], headroom: number): number {
  const { random, penalties } = placement.request;
  const index = hosts[Math.floor(random() * hosts.length)] ?? -1;
  if (index < 0 || penalties?.has(index) === true) return -1;
  return placement.room(index, headroom + 1) > headroom ? index : -1;
}

/** How full the host is with what this request put there, by whichever resource is scarcer. */
function fillOf({ table, placed, request }: Placement, index: number): number {
  const { memoryFree, memoryCapacity, cpuFree, cpuCapacity } = table.columns;
  const here = placed.get(index) ?? 0;
  const memory = (memoryFree[index] ?? 0) - here * request.demand.memoryBytes;
  const cpu = (cpuFree[index] ?? 0) - here * request.demand.cpuMillis;
  return 1 - Math.min(memory / Math.max(memoryCapacity[index] ?? 0, 1), cpu / Math.max(cpuCapacity[index] ?? 0, 1));
}

/** One each in turn, over the hosts with the fewest failures; then over those with more. */
function placePenalised(placement: Placement, count: number, penalties: ReadonlyMap<number, number>): void {
  const byFailures = Map.groupBy([...penalties.keys()], (index) => penalties.get(index) ?? 0);
  let left = count;
  for (const failures of [...byFailures.keys()].toSorted((a, b) => a - b)) {
    for (let hosts = byFailures.get(failures) ?? []; hosts.length > 0;) {
      const again: number[] = [];
      for (const index of hosts) {
        if (left === 0) return;
        if (placement.roomAnywhere(index, 1) === 0) continue;
        placement.take(index, 1);
        left -= 1;
        again.push(index);
      }
      hosts = again;
    }
  }
}
