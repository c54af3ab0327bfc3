/** Access as a whole: the gate, and what it knows. */
import type { Gate } from '@flynn/kit/http-gate';
import type { Deps } from '../deps.ts';
import { Directory } from './directory.ts';
import { accessGate } from './gate.ts';
import { RateLimit, defaultRate } from './rate-limit.ts';
import type { RateSettings } from './rate-limit.ts';

export type Access = AsyncDisposable & { readonly gate: Gate };

/** Resolves once it knows everybody. */
export async function openAccess(options: {
  deps: Deps;
  rootKey: string;
  clusterKey: string;
  rate?: RateSettings;
  signal?: AbortSignal;
}): Promise<Access> {
  const { deps, rootKey, clusterKey, rate = defaultRate, signal } = options;
  const { store, resources, now } = deps;
  const directory = await Directory.open({ store, resources, now, ...(signal === undefined ? {} : { signal }) });
  const rateLimit = new RateLimit(rate, now);
  return {
    gate: accessGate({ deps, directory, rootKey, clusterKey, rateLimit }),
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
}
