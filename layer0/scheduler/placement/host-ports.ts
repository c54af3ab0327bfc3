/** Which host ports are taken on which host: by one family each, and by how many of its jobs. */
import type { Claim, Demand } from '../cell.ts';

export type TakenPorts = Claim['ports'];

export class HostPorts {
  readonly #taken = new Map<number, Map<number, { family: string; jobs: number }>>();

  /** The first of the demand's ports that another family holds. */
  findTaken(host: number, demand: Demand): number | undefined {
    if (demand.hostPorts.length === 0) return undefined;
    const taken = this.#taken.get(host);
    if (taken === undefined) return undefined;
    return demand.hostPorts.find((port) => {
      const held = taken.get(port);
      return held !== undefined && held.family !== demand.family;
    });
  }

  claim(host: number, demand: Demand, jobs: number): void {
    if (demand.hostPorts.length === 0) return;
    const taken = this.#taken.get(host) ?? new Map<number, { family: string; jobs: number }>();
    this.#taken.set(host, taken);
    for (const port of demand.hostPorts) {
      const held = taken.get(port);
      if (held === undefined) taken.set(port, { family: demand.family, jobs });
      else held.jobs += jobs;
    }
  }

  release(host: number, demand: Demand, jobs: number): void {
    const taken = this.#taken.get(host);
    if (taken === undefined) return;
    for (const port of demand.hostPorts) {
      const held = taken.get(port);
      if (held === undefined) continue;
      held.jobs -= jobs;
      if (held.jobs <= 0) taken.delete(port);
    }
    if (taken.size === 0) this.#taken.delete(host);
  }

  /** What is taken on the host from now on, whatever was before. */
  set(host: number, ports: TakenPorts): void {
    const taken = Object.entries(ports).map(([port, held]) => [Number(port), { ...held }] as const);
    if (taken.length === 0) this.#taken.delete(host);
    else this.#taken.set(host, new Map(taken));
  }

  of(host: number): TakenPorts {
    return Object.fromEntries([...(this.#taken.get(host) ?? [])].map(([port, held]) => [port, { ...held }]));
  }
}
