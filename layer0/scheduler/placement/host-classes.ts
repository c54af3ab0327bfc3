/**
 * Hosts that no constraint can tell apart are one class, with a grid of their own. Classes are told apart by the
 * attributes that were ever asked for; one with a value per host (its name, its address) is looked at host by host.
 */
import type { Constraint } from '../cell.ts';
import { Grid } from './grid.ts';

export type Attributes = Readonly<Record<string, string>>;

/** The attribute that is the host's id. */
export const hostAttribute = 'host';
const maximumClasses = 256;

export type HostClass = Readonly<{
  values: ReadonlyMap<string, string | undefined>;
  /** Hosts that are open: those of the scheduler's own slice, and the others. */
  home: Grid;
  away: Grid;
}>;

export class HostClasses {
  /** Attributes that tell classes apart. */
  readonly #asked = new Set<string>();
  readonly #wide = new Set([hostAttribute]);
  readonly #classes = new Map<string, HostClass>();

  get all(): HostClass[] {
    return [...this.#classes.values()];
  }

  isWide(attribute: string): boolean {
    return this.#wide.has(attribute);
  }

  /** Whether classes have to be made anew for it. */
  ask(attribute: string): boolean {
    if (this.#wide.has(attribute) || this.#asked.has(attribute)) return false;
    this.#asked.add(attribute);
    return true;
  }

  clear(): void {
    this.#classes.clear();
  }

  /** The class for a host with these attributes; undefined when there would be too many. */
  of(attributes: Attributes): HostClass | undefined {
    const key = JSON.stringify([...this.#asked].map((name) => attributes[name] ?? null));
    const known = this.#classes.get(key);
    if (known !== undefined) return known;
    if (this.#classes.size >= maximumClasses) return undefined;
    const values = new Map([...this.#asked].map((name) => [name, attributes[name]] as const));
    const made = { values, home: new Grid(), away: new Grid() };
    this.#classes.set(key, made);
    return made;
  }

  /** From now on the attribute with the most values does not tell classes apart; there are none until hosts are classed anew. */
  giveUpWidest(): void {
    const counts = [...this.#asked].map((name) => {
      return { name, count: new Set(this.all.map(({ values }) => values.get(name))).size };
    });
    const widest = counts.toSorted((a, b) => b.count - a.count)[0];
    this.#classes.clear();
    if (widest === undefined) return;
    this.#asked.delete(widest.name);
    this.#wide.add(widest.name);
  }
}

type Operator = Readonly<{
  passes: (value: string | undefined, values: readonly string[]) => boolean;
  /** What a host fails, in words for people. */
  text: (attribute: string, values: readonly string[]) => string;
}>;

const operators: Readonly<Record<Constraint['operator'], Operator>> = {
  in: {
    passes: (value, values) => value !== undefined && values.includes(value),
    text: (attribute, values) => `${attribute} is not ${values.join(' or ')}`,
  },
  not_in: {
    passes: (value, values) => value === undefined || !values.includes(value),
    text: (attribute, values) => `${attribute} is ${values.join(' or ')}`,
  },
  exists: { passes: (value) => value !== undefined, text: (attribute) => `has no ${attribute}` },
  missing: { passes: (value) => value === undefined, text: (attribute) => `has ${attribute}` },
  // It depends on the workload's other jobs: whoever places looks at those.
  distinct: { passes: () => true, text: (attribute) => `${attribute} is used by another job of the workload` },
};

/** Whether a host with this value passes; `distinct` always does here. */
export function passes({ operator, values }: Constraint, value: string | undefined): boolean {
  return operators[operator].passes(value, values);
}

export function constraintText({ attribute, operator, values }: Constraint): string {
  return operators[operator].text(attribute, values);
}
