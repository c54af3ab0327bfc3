/**
 * The tokens of the platform's parts are made anew in rounds: the controller takes those of the new round beside the former
 * ones, each part is given its new one, then the controller takes the former ones no longer. A round that was broken off is
 * gone on with by the next `up`.
 */
import type { Cluster } from './settings.ts';

export type TokenRounds = NonNullable<Cluster['tokens']>;

/** Of a cluster whose tokens were never made anew. */
const firstRound: TokenRounds = { round: 0 };

export function roundsOf({ tokens = firstRound }: Pick<Cluster, 'tokens'>): TokenRounds {
  return tokens;
}

/** With a new round begun; one that is not through is gone on with instead. */
export function withNextRound(cluster: Cluster): Cluster {
  const { round, former } = roundsOf(cluster);
  if (former !== undefined) return cluster;
  return { ...cluster, tokens: { round: round + 1, former: round } };
}

/** With what is left when all parts have their new tokens. */
export function withoutFormerRound(cluster: Cluster): Cluster {
  return { ...cluster, tokens: { round: roundsOf(cluster).round } };
}
