/** The providers that the platform is itself: one for each kind of datastore that it has an image of. */
import { appliances } from '@flynn/appliances/appliances';
import { hasCode } from '@flynn/kit/errors';
import { shortId } from '@flynn/kit/ids';
import { retry } from '@flynn/kit/retry';
import type { Compare } from '@flynn/store/store';
import type { Deps } from '../deps.ts';
import { findProvider } from '../providers/providers.ts';
import { applianceOf, applianceUrl, providerType } from '../providers/types.ts';

const deadlineMs = 24 * 3_600_000;

/** There when it resolves, but where somebody has given the name to a provider of their own: theirs stays. */
export async function addBuiltInProviders(deps: Deps, options: { signal: AbortSignal; epoch: Compare }): Promise<void> {
  const { signal } = options;
  for (const name of Object.keys(deps.settings.applianceImages ?? {}).filter((one) => appliances.has(one))) {
    await retry(() => addProvider(deps, name, options), {
      what: `adding the provider ${name}`,
      deadlineMs,
      signal,
      isRetryable: (error) => hasCode(error, 'unavailable', 'timeout'),
    });
  }
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
