/** What is forgotten by its age alone: entries of the trail, kept answers, tokens that expired. */
import type { Compare } from '@flynn/store/store';
import { noteEarlierLogins } from '../access/last-login.ts';
import { pruneTokens } from '../access/expiry.ts';
import { pruneAnswers } from '../audit/answers.ts';
import { pruneAudit } from '../audit/reading.ts';
import type { Deps } from '../deps.ts';
import { believedNow } from './round-state.ts';

export async function forgetOld(deps: Deps, options: Readonly<{ signal: AbortSignal; epoch: Compare }>): Promise<void> {
  const nowMs = await believedNow(deps, options);
  await pruneAudit(deps.store, { ...options, nowMs });
  await pruneAnswers(deps.store, { ...options, nowMs });
  await pruneTokens(deps, { ...options, nowMs });
  // Which forgets nothing: as of the last collection the keys of a cluster that was off for long would be over at once.
  await noteEarlierLogins(deps, { ...options, nowMs: deps.now() });
}
