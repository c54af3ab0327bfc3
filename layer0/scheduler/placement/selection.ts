/** The hosts that a workload's constraints leave, whether there is room or not. */
import type { Constraint } from '../cell.ts';
import type { Grid } from './grid.ts';
import type { HostClass } from './host-classes.ts';

/** The open hosts of a slice: its owner takes those of the margin last, others take them first. */
export type SliceHosts = Readonly<{ core: readonly number[]; margin: readonly number[] }>;
/** Which slice a host is of, and whether it is on its margin. */
export type SliceRule = Readonly<{ of: number; slice(index: number): number; isMargin(index: number): boolean }>;

/** Classes by the values of a spread's attributes, one attribute a level. */
export type ValueTree = Readonly<{
  key: string;
  classes: readonly HostClass[];
  branches: readonly ValueTree[] | undefined;
}>;

export class Selection {
  readonly classes: readonly HostClass[];
  /** Constraints still to be asked host by host. */
  readonly perHost: readonly Constraint[];
  /** When a constraint names values that only few hosts have: those, of any class, open or not. */
  readonly listed: readonly number[] | undefined;
  readonly #rule: SliceRule;
  #slices: readonly SliceHosts[] | undefined;
  readonly #trees = new Map<string, ValueTree>();

  constructor(parts: Pick<Selection, 'classes' | 'perHost' | 'listed'>, rule: SliceRule) {
    this.classes = parts.classes;
    this.perHost = parts.perHost;
    this.listed = parts.listed;
    this.#rule = rule;
  }

  /** The open hosts of the classes by slice, for drawing at random. A selection lasts until hosts change. */
  get slices(): readonly SliceHosts[] {
    this.#slices ??= this.#listSlices();
    return this.#slices;
  }

  tree(attributes: readonly string[]): ValueTree {
    const name = attributes.join('\n');
    const known = this.#trees.get(name);
    if (known !== undefined) return known;
    const made = treeOf(this.classes, attributes, []);
    this.#trees.set(name, made);
    return made;
  }

  #listSlices(): SliceHosts[] {
    const slices = Array.from({ length: this.#rule.of }, () => ({ core: [] as number[], margin: [] as number[] }));
    for (const index of this.classes.flatMap(({ home, away }) => [...hostsOf(home), ...hostsOf(away)])) {
      slices[this.#rule.slice(index)]?.[this.#rule.isMargin(index) ? 'margin' : 'core'].push(index);
    }
    return slices;
  }
}

function hostsOf(grid: Grid): number[] {
  return grid.cells.flatMap((hosts) => hosts ?? []);
}

/** Names a value of the path's last attribute within the values before it. */
export function pathKey(path: readonly (string | undefined)[]): string {
  return JSON.stringify(path.map((value) => value ?? null));
}

function treeOf(
  classes: readonly HostClass[],
  attributes: readonly string[],
  path: readonly (string | undefined)[],
): ValueTree {
  const attribute = attributes[path.length];
  const key = pathKey(path);
  if (attribute === undefined) return { key, classes, branches: undefined };
  const byValue = Map.groupBy(classes, ({ values }) => values.get(attribute));
  return { key, classes, branches: Array.from(byValue, ([value, own]) => treeOf(own, attributes, [...path, value])) };
}
