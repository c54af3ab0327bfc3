/** The providers that the platform is itself: one for each kind of datastore that it has an image of. */
import { appliances } from '@flynn/appliances/appliances';
import { hasCode } from '@flynn/kit/errors';
import { shortId } from '@flynn/kit/ids';
import { forever } from '@flynn/kit/tasks';
import type { Compare } from '@flynn/store/store';
import type { Deps } from '../deps.ts';
import { findProvider } from '../providers/providers.ts';
import { applianceOf, applianceUrl, providerType } from '../providers/types.ts';

const longestPauseMs = 60_000;

/**
 * Each is there at some time, but where somebody has given the name to a provider of their own: theirs stays. One that cannot be
 * read or made is tried again for as long as the signal lets it, and keeps no other from being there.
 */
export async function addBuiltInProviders(deps: Deps, options: { signal: AbortSignal; epoch: Compare }): Promise<void> {
  const names = Object.keys(deps.settings.applianceImages ?? {}).filter((one) => appliances.has(one));
  await Promise.all(names.map((name) => addInTime(deps, name, options)));
}

async function addInTime(deps: Deps, name: string, options: { signal: AbortSignal; epoch: Compare }): Promise<void> {
  const added = new AbortController();
  const step = async (signal: AbortSignal): Promise<void> => {
    await addProvider(deps, name, { ...options, signal });
    added.abort();
  };
  const signal = AbortSignal.any([options.signal, added.signal]);
  await forever(`adding the provider ${name}`, step, { signal, log: deps.log, maxMs: longestPauseMs });
}

async function addProvider(
  deps: Deps,
  name: string,
  { signal, epoch }: { signal: AbortSignal; epoch: Compare },
): Promise<void> {
  const found = await findProvider(deps, name, signal);
  if (found !== undefined) {
    if (applianceOf(found) === undefined) {
      deps.log.warn({ provider: name }, `the provider ${name} is not the platform's own: that one is not to be had`);
    }
    return;
  }
  const spec = { name, url: applianceUrl(name) };
  try {
    const also = () => ({ compare: [epoch] });
    await deps.resources.create(providerType, { id: shortId(), spec }, { signal, also });
  } catch (error) {
    // Somebody else's, by now.
    if (!hasCode(error, 'conflict')) throw error;
  }
}
