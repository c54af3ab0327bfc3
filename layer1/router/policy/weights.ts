/** How are requests shared between the releases of an app? */
import { chooseBackend } from './choice.ts';
import type { Candidate } from './choice.ts';

export type Weight = { readonly release: string; readonly weight: number };
type Released = Candidate & { readonly release: string | undefined };

/**
 * Each release gets its share of the requests, of the shares of those that have backends left to try. Backends of a
 * release that has no share get nothing, unless nobody else is there.
 */
export class Weights<B extends Released> {
  readonly #weights: readonly Weight[];
  /** Of each list of backends, which is never changed but replaced. */
  readonly #groups = new WeakMap<readonly B[], ReadonlyMap<string | undefined, readonly B[]>>();

  constructor(weights: readonly Weight[]) {
    this.#weights = weights.filter(({ weight }) => weight > 0);
  }

  /**
   * `point` (0 to 1) says which share is meant: at random, or always the same for a client. The shares lie in the order
   * of the weights: when the last one's grows, clients only ever move to it.
   */
  choose(
    backends: readonly B[],
    point: number,
    nowMs: number,
    random: () => number,
    tried?: readonly B[],
  ): B | undefined {
    const groups = this.#groupsOf(backends);
    const hasLeft = ({ release }: Weight) => {
      const group = groups.get(release);
      return group !== undefined && (tried === undefined || group.some((backend) => !tried.includes(backend)));
    };
    const weights = this.#weights.filter(hasLeft);
    let rest = point * weights.reduce((sum, { weight }) => sum + weight, 0);
    for (const [index, { release, weight }] of weights.entries()) {
      rest -= weight;
      if (rest < 0 || index === weights.length - 1)
        return chooseBackend(groups.get(release) ?? [], nowMs, random, tried);
    }
    return chooseBackend(backends, nowMs, random, tried);
  }

  /** Whether its release has a share. */
  serves({ release }: B): boolean {
    return this.#weights.some((weight) => weight.release === release);
  }

  #groupsOf(backends: readonly B[]): ReadonlyMap<string | undefined, readonly B[]> {
    let groups = this.#groups.get(backends);
    if (groups === undefined) {
      groups = Map.groupBy(backends, (backend) => backend.release);
      this.#groups.set(backends, groups);
    }
    return groups;
  }
}
