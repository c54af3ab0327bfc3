/** A build whose host or runner is gone: is it begun again, and what is said of it? Pure. */
import { FlynnError } from '@flynn/kit/errors';
import { buildWorkloadId } from '../builds/compile.ts';
import type { Loss } from '../model.ts';
import type { OperationResource } from '../resources.ts';

/** So often it is begun again after it was lost. */
const maxAgain = 2;

/**
 * Undefined if it is to be begun again after the last of its losses. A build that a host was lost beneath may be what brought it
 * down: another host gets it once, and no third one.
 */
export function whyNotAgain(losses: readonly Loss[]): string | undefined {
  const last = losses.at(-1);
  if (last === undefined) return undefined;
  const beneath = losses.filter(({ hasRun }) => hasRun);
  if (last.hasRun && beneath.length > 1) return poisonText(beneath);
  if (losses.length <= maxAgain) return undefined;
  return `${lossText(last)}, and it had been begun again ${maxAgain} times: push again`;
}

function poisonText(beneath: readonly Loss[]): string {
  const hosts = [...new Set(beneath.flatMap(({ hostId }) => hostId ?? []))];
  const [one, ...others] = hosts;
  const which =
    others.length === 0
      ? `its host${one === undefined ? '' : ` ${one}`} was lost twice`
      : `the hosts ${hosts.join(' and ')} were lost`;
  return `${which} while it was built there: it may be the build that brings hosts down, so it is not begun again by itself. If it is not, push again`;
}

/** For people. */
export function lossText({ runnerId, hostId, hasRun, isDrained }: Loss): string {
  if (isDrained === true) return `the host ${hostId ?? ''} was drained, and its deadline ended the build`;
  if (hostId !== undefined) return `the host ${hostId} that ${hasRun ? 'built it' : 'was to build it'} was lost`;
  if (runnerId !== undefined) return `the runner ${runnerId} that saw to it was lost`;
  return 'the host that was to build it was lost before it began';
}

/** The workload that builds it now: each time it is begun it has one of its own, and what the one before does is none of it. */
export function currentBuild({ id, spec, status }: Pick<OperationResource, 'id' | 'spec' | 'status'>): string {
  return buildWorkloadId(spec.appId, id, status.losses?.length);
}

/** Throws `conflict` for a runner that was given it before it was lost, and has not heard yet that others have it. */
export function checkLosses({ id, status }: Pick<OperationResource, 'id' | 'status'>, known: number): void {
  if ((status.losses?.length ?? 0) === known) return;
  throw new FlynnError('conflict', `operation ${id} was lost and is begun again by others: stop working on it`);
}
