/** Why was something not placed? */
import type { HostTable } from './host-table.ts';
import { Placement, type PlaceRequest } from './request.ts';

export type Explanation = Readonly<{
  /** Hosts that were looked at: all of the table. */
  hosts: number;
  /** Hosts on which one more job fits. */
  fitting: number;
  /** Hosts that failed each check, by its text; a host counts for the first it fails, and for all that it has too little of. */
  obstacles: Readonly<Record<string, number>>;
}>;

/** Looks at every host: for evaluations that end up blocked and for people. */
export function explain(table: HostTable, request: PlaceRequest): Explanation {
  const placement = new Placement(table, request);
  const obstacles = new Map<string, number>();
  let fitting = 0;
  for (let index = 0; index < table.end; index++) {
    if (table.idOf(index) === undefined) continue;
    const found = placement.obstacles(index);
    if (found.length === 0) fitting += 1;
    for (const obstacle of found) obstacles.set(obstacle, (obstacles.get(obstacle) ?? 0) + 1);
  }
  const mostFirst = [...obstacles].toSorted(([a, x], [b, y]) => y - x || (a < b ? -1 : 1));
  return { hosts: table.size, fitting, obstacles: Object.fromEntries(mostFirst) };
}
