/** The hosts that a workload's constraints leave, whether there is room or not. */
import type { Constraint } from '../cell.ts';
import type { HostClass } from './host-classes.ts';

type HostLists = Readonly<{ home: readonly number[]; away: readonly number[] }>;

export class Selection {
  readonly classes: readonly HostClass[];
  /** Constraints still to be asked host by host. */
  readonly perHost: readonly Constraint[];
  /** When a constraint names values that only few hosts have: those, of any class, open or not. */
  readonly listed: readonly number[] | undefined;
  #flat: HostLists | undefined;

  constructor(parts: Pick<Selection, 'classes' | 'perHost' | 'listed'>) {
    this.classes = parts.classes;
    this.perHost = parts.perHost;
    this.listed = parts.listed;
  }

  /** The open hosts of the classes in one list each, for drawing at random. A selection lasts until hosts change. */
  get flat(): HostLists {
    this.#flat ??= {
      home: this.classes.flatMap(({ home }) => home.cells.flatMap((hosts) => hosts ?? [])),
      away: this.classes.flatMap(({ away }) => away.cells.flatMap((hosts) => hosts ?? [])),
    };
    return this.#flat;
  }
}
