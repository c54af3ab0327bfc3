/**
 * Runners outside of the cluster: they come through the router like people, with a token that is theirs alone. What they may do is
 * what a runner has to, as themselves, on apps of which they hold an operation, and while they hold it.
 */
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { type GateRequest, unknownKey } from '@flynn/kit/http-gate';
import { platform } from '../platform/api.ts';
import type { Deps } from '../deps.ts';
import { holdsOperation } from '../operations/holding.ts';
import { checkRunner } from '../operations/runner-registry.ts';
import { readRunnerCredential } from '../operations/runner-token.ts';
import { type Principal, runnerPrincipal } from './principal.ts';

export type RunnerDeps = Pick<Deps, 'resources' | 'runners' | 'runnerKey' | 'queue'>;

/** Undefined for what is no such token; `unauthenticated` for one that is not good. */
export async function ownRunner(deps: RunnerDeps, text: string, signal: AbortSignal): Promise<Principal | undefined> {
  const given = readRunnerCredential(text);
  if (given === undefined) return undefined;
  const { runnerId, token } = given;
  try {
    const { spec } = await checkRunner(deps, runnerId, token, signal);
    // One of the platform's own has a part's token, and comes from within.
    if (spec.isPlatform) throw unknownKey();
  } catch (error) {
    if (!hasCode(error, 'unauthenticated')) throw error;
    const remedy = `an admin adds it: flynn runner add ${runnerId}`;
    throw new FlynnError('unauthenticated', `runner ${runnerId} is not known here, or by another token: ${remedy}`);
  }
  return runnerPrincipal(runnerId);
}

/** Throws `denied`. `appId`: of the app that is asked about, if one is. */
export async function checkOwnRunner(
  deps: RunnerDeps,
  runnerId: string,
  { route, params, signal }: Pick<GateRequest, 'route' | 'params' | 'signal'>,
  appId: string | undefined,
): Promise<void> {
  const { runner } = params;
  if (runner !== undefined && runner !== runnerId) {
    throw new FlynnError('denied', `runner ${runnerId} cannot act as runner ${runner}`);
  }
  if (runner !== undefined || route === platform.cluster) return;
  if (await holdsOperation(deps, { runnerId, appId }, signal)) return;
  throw new FlynnError('denied', `runner ${runnerId} holds no operation that needs this`);
}
