/** Values kept once however many name them. */
import type { AssignedGroup, Demand, Workload } from '../cell.ts';

export type Shape = Readonly<{ version: string; demand: Demand; singleton: boolean }>;

/** What an assignment says of each of its jobs alike. INVARIANTS. A shape lives as long as it is held. */
export class Shapes {
  readonly #shapes: (Readonly<{ key: string; shape: Shape }> | undefined)[] = [];
  readonly #holders: number[] = [];
  readonly #numbers = new Map<string, number>();
  readonly #free: number[] = [];

  /** The group's shape, held once for each of its jobs. */
  take({ version, demand, singleton, jobs }: AssignedGroup): number {
    const key = JSON.stringify([version, singleton, demand]);
    let number = this.#numbers.get(key);
    if (number === undefined) {
      number = this.#free.pop() ?? this.#shapes.length;
      this.#shapes[number] = { key, shape: { version, demand, singleton } };
      this.#holders[number] = 0;
      this.#numbers.set(key, number);
    }
    this.#holders[number] = (this.#holders[number] ?? 0) + jobs.length;
    return number;
  }

  of(number: number): Shape | undefined {
    return this.#shapes[number]?.shape;
  }

  free(number: number): void {
    const holders = (this.#holders[number] ?? 0) - 1;
    this.#holders[number] = holders;
    const known = this.#shapes[number];
    if (holders > 0 || known === undefined) return;
    this.#numbers.delete(known.key);
    this.#shapes[number] = undefined;
    this.#free.push(number);
  }
}

const maxShared = 10_000;

/** Parts that many workloads have alike, by their JSON. Forgetting them costs memory and nothing else. */
export class SharedParts {
  readonly #parts = new Map<string, unknown>();

  workload({ constraints, spread, reschedule, demand, ...rest }: Workload): Workload {
    return {
      ...rest,
      demand: this.#demand(demand),
      constraints: this.#shared(constraints),
      spread: this.#shared(spread),
      reschedule: this.#shared(reschedule),
    };
  }

  #demand({ hostPorts, volumes, ...rest }: Demand): Demand {
    return { ...rest, hostPorts: this.#shared(hostPorts), volumes: this.#shared(volumes) };
  }

  #shared<T extends object>(part: T): T {
    const key = JSON.stringify(part);
    const known = this.#parts.get(key);
    if (known !== undefined) return known as T;
    if (this.#parts.size >= maxShared) this.#parts.clear();
    this.#parts.set(key, part);
    return part;
  }
}
