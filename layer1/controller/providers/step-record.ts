/** What a step puts down in the record of its resource: conditions, why its provider could not be asked, and when that is again. */
import { FlynnError, asFlynnError } from '@flynn/kit/errors';
import type { KeyedMutex } from '@flynn/kit/queue';
import type { ResourceChange } from '@flynn/resource/change';
import type { Compare } from '@flynn/store/store';
import { dueInMs } from '../clocks/due.ts';
import type { Deps } from '../deps.ts';
import type { Failure } from './model.ts';
import { providerType, resourceType } from './types.ts';
import type { ProvidedResource, ProviderResource } from './types.ts';
import { longestPauseMs } from './under-way.ts';

/** Of what is being made here: how often it is looked at. */
export const lookAgainMs = 250;

/** `turns`: by app, for each of its releases starts from the one before. */
export type StepOptions = Readonly<{ signal: AbortSignal; epoch?: Compare; turns: KeyedMutex }>;
export type Status = ProvidedResource['status'];
type Change = ResourceChange<ProvidedResource['spec'], Status>;

export async function write(
  { resources }: Deps,
  id: string,
  options: StepOptions,
  change: (current: ProvidedResource) => Change,
): Promise<void> {
  await resources.change(resourceType, id, change, guarded(options));
}

export function guarded({ signal, epoch }: StepOptions) {
  return { signal, ...(epoch === undefined ? {} : { also: () => ({ compare: [epoch] }) }) };
}

export const ready = { type: 'Ready', status: 'True', reason: 'Given' } as const;

export function notReady(reason: string, message: string) {
  return { type: 'Ready', status: 'False', reason, message } as const;
}

function failureOf(error: unknown): Failure {
  const { code, message } = asFlynnError(error);
  return { code: code === 'invalid' || code === 'denied' ? code : 'unavailable', message };
}

/** Whatever wakes it meanwhile: 1 s after the first failure, doubling. */
export function nextFailure(
  { now }: Pick<Deps, 'now'>,
  { status, deletingSince }: ProvidedResource,
  error: unknown,
): NonNullable<Status['failure']> {
  const isOfRemoval = deletingSince !== undefined;
  const before = status.failure?.isOfRemoval === isOfRemoval ? status.failure.count : 0;
  const pauseMs = Math.min(longestPauseMs, 1_000 * 2 ** Math.min(before, 10));
  return { ...failureOf(error), isOfRemoval, count: before + 1, nextMs: now() + pauseMs };
}

export function waitMsOf({ now }: Pick<Deps, 'now'>, { status, deletingSince }: ProvidedResource): number {
  const set = status.failure ?? status.underWay;
  if (set === undefined || set.isOfRemoval !== (deletingSince !== undefined)) return 0;
  return dueInMs(set.nextMs, now(), longestPauseMs);
}

export async function providerOf(
  deps: Deps,
  { spec }: ProvidedResource,
  options: StepOptions,
): Promise<ProviderResource> {
  const provider = await deps.resources.find(providerType, spec.providerId, options);
  if (provider !== undefined) return provider;
  throw new FlynnError('unavailable', `its provider ${spec.providerId} is not there any more`, {
    detail: { isUnsent: true },
  });
}
