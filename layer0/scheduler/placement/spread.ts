/**
 * Jobs over the values of attributes, then over hosts, so that counts differ by one at most wherever there is room: a tree of
 * values, served where it holds fewest, whose leaves fill their hosts evenly, tightest first.
 */
import { BestFit } from './best-fit.ts';
import type { HostClass } from './host-classes.ts';
import type { Placement } from './request.ts';
import { pathKey, type ValueTree } from './selection.ts';

type Serve = () => boolean;
/** A value of an attribute: jobs of the workload in it, and how one more is placed there; false when it is full. */
type Branch = { jobs: number; readonly serve: Serve };

/** Returns how many it placed. */
export function spreadOut(placement: Placement, count: number): number {
  const attributes = placement.request.spread ?? [];
  const serve = branchOut(placement, attributes, sameByPath(placement, attributes), count);
  let placed = 0;
  while (placed < count && serve()) placed += 1;
  return placed;
}

/** Jobs there are, by the values of the spread's attributes, for each length of path. */
function sameByPath({ table, request, placed }: Placement, attributes: readonly string[]): Map<string, number> {
  const jobs = new Map<string, number>();
  if (attributes.length === 0) return jobs;
  for (const counts of [request.same ?? new Map<number, number>(), placed]) {
    for (const [index, count] of counts) {
      const path: (string | undefined)[] = [];
      for (const attribute of attributes) {
        path.push(table.valueOf(index, attribute));
        const key = pathKey(path);
        jobs.set(key, (jobs.get(key) ?? 0) + count);
      }
    }
  }
  return jobs;
}

function branchOut(
  placement: Placement,
  attributes: readonly string[],
  jobs: ReadonlyMap<string, number>,
  count: number,
): Serve {
  const { table, selection, request } = placement;
  if (selection.listed === undefined && !attributes.some((attribute) => table.isWide(attribute))) {
    return branchOfTree(selection.tree(attributes));
  }
  // Values that tell single hosts apart: every host is looked at once.
  const hosts: number[] = [];
  const all = new BestFit(placement, selection.classes, () => true);
  for (let index = all.next(); index >= 0; index = all.next()) hosts.push(index);
  return branchOfHosts(hosts, []);

  function branchOfTree({ branches, classes }: ValueTree): Serve {
    if (branches === undefined) return lazily(() => leafOfClasses(placement, classes, count));
    const below = branches.map((tree): Branch => {
      return { jobs: jobs.get(tree.key) ?? 0, serve: branchOfTree(tree) };
    });
    return fewestFirst(below, request.random);
  }

  function branchOfHosts(members: readonly number[], path: readonly (string | undefined)[]): Serve {
    const attribute = attributes[path.length];
    if (attribute === undefined) return lazily(() => leafOfHosts(placement, members, count));
    const byValue = Map.groupBy(members, (index) => table.valueOf(index, attribute));
    const below = Array.from(byValue, ([value, own]): Branch => {
      const to = [...path, value];
      return { jobs: jobs.get(pathKey(to)) ?? 0, serve: branchOfHosts(own, to) };
    });
    return fewestFirst(below, request.random);
  }
}

/** Most values get no job when there are few. */
function lazily(make: () => Serve): Serve {
  let made: Serve | undefined;
  return () => (made ??= make())();
}

/** A heap of branches; among equals a random one at first. */
function fewestFirst(branches: readonly Branch[], random: () => number): Serve {
  const heap = branches.map((branch) => ({ branch, tie: random() }));
  heap.sort((a, b) => a.branch.jobs - b.branch.jobs || a.tie - b.tie);
  return () => {
    for (let top = heap[0]; top !== undefined; top = heap[0]) {
      if (top.branch.serve()) {
        top.branch.jobs += 1;
        sink();
        return true;
      }
      const last = heap.pop();
      if (last === undefined || last === top) continue;
      heap[0] = last;
      sink();
    }
    return false;
  };

  function sink(): void {
    let at = 0;
    const moving = heap[0];
    if (moving === undefined) return;
    for (;;) {
      const left = heap[2 * at + 1];
      const right = heap[2 * at + 2];
      const isRight = left !== undefined && right !== undefined && isBefore(right, left);
      const child = isRight ? right : left;
      if (child === undefined || !isBefore(child, moving)) break;
      heap[at] = child;
      at = 2 * at + (isRight ? 2 : 1);
    }
    heap[at] = moving;
  }

  function isBefore(a: { branch: Branch; tie: number }, b: { branch: Branch; tie: number }): boolean {
    return a.branch.jobs < b.branch.jobs || (a.branch.jobs === b.branch.jobs && a.tie < b.tie);
  }
}

function leafOfClasses(placement: Placement, classes: readonly HostClass[], count: number): Serve {
  const { penalties } = placement.request;
  const used = usedHosts(placement);
  const own =
    used.size === 0 ? [] : [...used].filter(([index]) => classes.some((one) => one === placement.table.classOf(index)));
  const fresh = new BestFit(
    placement,
    classes,
    // What the walk itself places it does not come to again.
    (index) => !used.has(index) && penalties?.has(index) !== true,
  );
  return evenly(placement, own, () => fresh.next(), count);
}

function leafOfHosts(placement: Placement, hosts: readonly number[], count: number): Serve {
  const used = usedHosts(placement);
  const fresh = hosts.filter((index) => !used.has(index) && placement.request.penalties?.has(index) !== true).values();
  const own = new Set(hosts);
  return evenly(
    placement,
    [...used].filter(([index]) => own.has(index)),
    () => fresh.next().value ?? -1,
    count,
  );
}

/** Hosts with jobs of the workload already, placed ones included, by how many. */
function usedHosts({ request, placed }: Placement): Map<number, number> {
  const used = new Map([...(request.same ?? [])].filter(([, jobs]) => jobs > 0));
  for (const [index, jobs] of placed) used.set(index, (used.get(index) ?? 0) + jobs);
  for (const index of request.penalties?.keys() ?? []) used.delete(index);
  return used;
}

type Place = { readonly index: number; room: number };

/** One job at a time on a host with the fewest: untouched ones first, as `fresh` gives them. */
function evenly(
  placement: Placement,
  used: Iterable<readonly [index: number, jobs: number]>,
  fresh: () => number,
  count: number,
): Serve {
  /** Hosts by how many jobs of the workload they have. */
  const levels: Place[][] = [];
  for (const [index, jobs] of used) {
    const room = placement.table.isOpen(index) ? placement.room(index, count) : 0;
    if (room > 0) (levels[jobs] ??= []).push({ index, room });
  }
  let hasFresh = true;
  let level = 1;
  let at = 0;
  return () => (hasFresh && serveFresh()) || serveUsed();

  function serveFresh(): boolean {
    for (let index = fresh(); index >= 0; index = fresh()) {
      const room = placement.room(index, count);
      if (room === 0) continue;
      put({ index, room }, 0);
      return true;
    }
    hasFresh = false;
    return false;
  }

  function serveUsed(): boolean {
    for (; level < levels.length; level += 1, at = 0) {
      const places = levels[level] ?? [];
      while (at < places.length) {
        const place = places[at++];
        if (place === undefined || (placement.isDistinct && placement.room(place.index, 1) === 0)) continue;
        put(place, level);
        return true;
      }
      levels[level] = [];
    }
    return false;
  }

  function put(place: Place, from: number): void {
    placement.take(place.index, 1);
    place.room -= 1;
    if (place.room > 0) (levels[from + 1] ??= []).push(place);
  }
}
