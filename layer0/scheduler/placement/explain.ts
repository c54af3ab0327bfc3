/** Why something was not placed, and why something was placed where it is. */
import type { HostTable } from './host-table.ts';
import { Placement, type PlaceRequest } from './request.ts';

export type Explanation = Readonly<{
  /** Hosts that were looked at: all of the table. */
  hosts: number;
  /** Hosts on which one more job fits. */
  fitting: number;
  /** Hosts that failed each check, by its text; a host counts for the first it fails. */
  obstacles: Readonly<Record<string, number>>;
}>;

/** Looks at every host: for evaluations that end up blocked and for people. */
export function explain(table: HostTable, request: PlaceRequest): Explanation {
  const placement = new Placement(table, request);
  const obstacles = new Map<string, number>();
  let fitting = 0;
  for (let index = 0; index < table.end; index++) {
    if (table.idOf(index) === undefined) continue;
    const obstacle = placement.obstacle(index);
    if (obstacle === undefined) fitting += 1;
    else obstacles.set(obstacle, (obstacles.get(obstacle) ?? 0) + 1);
  }
  const mostFirst = [...obstacles].toSorted(([a, x], [b, y]) => y - x || (a < b ? -1 : 1));
  return { hosts: table.size, fitting, obstacles: Object.fromEntries(mostFirst) };
}

/** Why one more job does not go on this host, in words for people; undefined when it can. */
export function obstacleOn(table: HostTable, request: PlaceRequest, index: number): string | undefined {
  return new Placement(table, request).obstacle(index);
}

/** What the policy compares of a host, before one more job is there: in the order in which it counts, by name. */
export function scoresOf(table: HostTable, request: PlaceRequest, index: number): Record<string, number> {
  const jobs = [...(request.same ?? [])];
  const spread = request.policy === 'spread' ? (request.spread ?? []) : [];
  const path: string[] = [];
  const byValue = spread.map((attribute): [string, number] => {
    path.push(attribute);
    const alike = jobs.filter(([other]) =>
      path.every((name) => table.valueOf(other, name) === table.valueOf(index, name)),
    );
    const value = table.valueOf(index, attribute);
    return [`jobs in ${attribute} ${value ?? '(none)'}`, alike.reduce((sum, [, count]) => sum + count, 0)];
  });
  return {
    preferred: request.prefer?.includes(index) === true ? 1 : 0,
    failures: request.penalties?.get(index) ?? 0,
    ...Object.fromEntries(byValue),
    ...(request.policy === 'spread' ? { 'jobs on the host': request.same?.get(index) ?? 0 } : {}),
    fill: table.columns.fill(index),
  };
}
