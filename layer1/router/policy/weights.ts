/** How are requests shared between the releases of an app? */
import { chooseBackend } from './choice.ts';
import type { Candidate } from './choice.ts';

export type Weight = { readonly release: string; readonly weight: number };
type Released = Candidate & { readonly release: string | undefined };
type Group<B> = { readonly backends: readonly B[]; readonly share: number };

/**
 * What the weights name shares among itself, by them, as much as all its backends would get of all requests without any; a
 * release that they do not name gets for each backend what it would get then, too. So a release that nobody could name yet
 * is not shut out until the one that was named ends, and all come to it at once. One with weight 0 gets nothing, unless
 * nobody else is there.
 *
 * A weight says what a release is to get while all of it is there. Of one that a deployment takes away it is an upper bound:
 * it gets no more than its backends would without weights, the others the rest. Else its last backend would have all of its
 * share. Only what leaves is bounded: a canary that was given most requests does not lose them by its promotion.
 */
export class Weights<B extends Released> {
  readonly #weights: ReadonlyMap<string | undefined, number>;
  readonly #leaving: string | undefined;
  /** Of each list of backends, which is never changed but replaced. */
  readonly #groups = new WeakMap<readonly B[], readonly Group<B>[]>();

  constructor(weights: readonly Weight[], leaving?: string) {
    this.#weights = new Map(weights.map(({ release, weight }) => [release, weight]));
    this.#leaving = leaving;
  }

  /**
   * `point` (0 to 1) says which share is meant: at random, or always the same for a client. The shares lie in the order
   * of the weights: when the last one's grows, clients only ever move to it. What has left to try gets the shares of what
   * has not.
   */
  choose(
    backends: readonly B[],
    point: number,
    nowMs: number,
    random: () => number,
    tried?: readonly B[],
  ): B | undefined {
    const all = this.#groupsOf(backends);
    const groups =
      tried === undefined || tried.length === 0
        ? all
        : all.filter((group) => group.backends.some((backend) => !tried.includes(backend)));
    let rest = point * groups.reduce((sum, { share }) => sum + share, 0);
    for (const [index, { backends: own, share }] of groups.entries()) {
      rest -= share;
      if (rest < 0 || index === groups.length - 1) return chooseBackend(own, nowMs, random, tried);
    }
    return chooseBackend(backends, nowMs, random, tried);
  }

  /** Whether its release has a share. */
  serves({ release }: B): boolean {
    const isLeft = this.#leaving === undefined || this.#leaving === release;
    return this.#weights.get(release) !== 0 || !isLeft;
  }

  #groupsOf(backends: readonly B[]): readonly Group<B>[] {
    let groups = this.#groups.get(backends);
    if (groups === undefined) {
      groups = groupsOf(backends, this.#weights, this.#leaving);
      this.#groups.set(backends, groups);
    }
    return groups;
  }
}

/** Those that have a share, in the order of the weights; what they do not name comes last, in an order that stays. */
function groupsOf<B extends Released>(
  backends: readonly B[],
  weights: ReadonlyMap<string | undefined, number>,
  leaving: string | undefined,
): readonly Group<B>[] {
  const byRelease = Map.groupBy(backends, ({ release }) => release);
  const named = [...weights].map(([release, weight]) => ({ release, weight, own: byRelease.get(release) ?? [] }));
  const unnamed = [...byRelease]
    .flatMap(([release = '', own]) => (weights.has(release) ? [] : [{ release, own }]))
    .toSorted((a, b) => (a.release < b.release ? -1 : 1));
  const serving = named.filter(({ weight, own }) => weight > 0 && own.length > 0);
  const namedCount = serving.reduce((sum, { own }) => sum + own.length, 0);
  const weightSum = serving.reduce((sum, { weight }) => sum + weight, 0);
  const count = namedCount + unnamed.reduce((sum, { own }) => sum + own.length, 0);
  const groups = [
    ...named.map(({ release, weight, own }) => ({
      isLeaving: release === leaving,
      backends: own,
      share: own.length === 0 || weight === 0 ? 0 : ((weight / weightSum) * namedCount) / count,
    })),
    ...unnamed.map(({ own }) => ({ isLeaving: false, backends: own, share: own.length / count })),
  ];
  return bounded(groups, backends.length).filter(({ share }) => share > 0);
}

type Bounded<B> = Group<B> & { readonly isLeaving: boolean };

/** With the part of what leaves that is too much for it given to the others, as they share; by their backends if they do not. */
function bounded<B>(groups: readonly Bounded<B>[], count: number): readonly Group<B>[] {
  const going = groups.find(({ isLeaving }) => isLeaving);
  const most = going === undefined ? 1 : going.backends.length / count;
  if (going === undefined || most === 1 || going.share <= most) return groups;
  const othersShare = groups.reduce((sum, { share, isLeaving }) => (isLeaving ? sum : sum + share), 0);
  return groups.map(({ backends, share, isLeaving }) => {
    if (isLeaving) return { backends, share: most };
    const part = othersShare > 0 ? share / othersShare : backends.length / (count - going.backends.length);
    return { backends, share: (1 - most) * part };
  });
}
