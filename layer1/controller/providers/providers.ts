/** Providers: found, put in the place of what there was, and removed when nothing is left of them. */
import { FlynnError, ifFound } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { shortId } from '@flynn/kit/ids';
import type { Deps } from '../deps.ts';
import { pageOf } from '../paging.ts';
import { providers } from './api.ts';
import { providerType, resourceType } from './types.ts';
import type { ProviderResource } from './types.ts';
import { viewProvider } from './views.ts';

const maxAttempts = 8;

export function providerHandlers(deps: Deps): Handler[] {
  return [
    handle(providers.create, async ({ body, signal }) => {
      const { name, url, token } = body;
      const spec = { name, url, ...(token === undefined ? {} : { token }) };
      return viewProvider(await putProvider(deps, undefined, { spec, labels: {} }, signal));
    }),
    handle(providers.list, async ({ query, signal }) => {
      const all = await deps.resources.list(providerType, { signal });
      const sorted = all.toSorted((a, b) => (a.spec.name < b.spec.name ? -1 : 1));
      return pageOf(sorted, query, ({ id }) => id).map(viewProvider);
    }),
    handle(providers.get, async ({ params, signal }) => viewProvider(await getProvider(deps, params.provider, signal))),
    handle(providers.remove, async ({ params, signal }) =>
      removeProvider(deps, await getProvider(deps, params.provider, signal), signal),
    ),
  ];
}

export async function findProvider(
  { resources }: Pick<Deps, 'resources'>,
  nameOrId: string,
  signal: AbortSignal,
): Promise<ProviderResource | undefined> {
  return ifFound(resources.lookup(providerType, nameOrId, { signal }));
}

export async function getProvider(
  deps: Pick<Deps, 'resources'>,
  nameOrId: string,
  signal: AbortSignal,
): Promise<ProviderResource> {
  const found = await findProvider(deps, nameOrId, signal);
  if (found !== undefined) return found;
  throw new FlynnError('not_found', `there is no provider "${nameOrId}"; list them with: flynn provider`);
}

/** A name that is taken by another is a `conflict`. */
export async function putProvider(
  { resources }: Pick<Deps, 'resources'>,
  current: ProviderResource | undefined,
  wanted: {
    spec: ProviderResource['spec'];
    labels: Readonly<Record<string, string>>;
    revision?: number | undefined;
  },
  signal: AbortSignal,
): Promise<ProviderResource> {
  const { spec, labels, revision } = wanted;
  if (current === undefined) return resources.create(providerType, { id: shortId(), labels, spec }, { signal });
  return resources.change(providerType, current.id, () => ({ spec, labels }), {
    signal,
    expectUid: current.uid,
    ...(revision === undefined ? {} : { expectRevision: revision }),
  });
}

/** Throws `conflict` while there are resources of it: nobody else could take them back. */
export async function removeProvider(deps: Deps, { id }: ProviderResource, signal: AbortSignal): Promise<void> {
  const { resources } = deps;
  for (let attempt = 1; ; attempt += 1) {
    const provider = await getProvider(deps, id, signal);
    const left = await resources.list(resourceType, { signal, where: ({ spec }) => spec.providerId === id });
    if (left.length > 0) {
      const some = left.slice(0, 5).map((one) => one.id);
      const more = left.length > some.length ? ` and ${left.length - some.length} more` : '';
      throw new FlynnError(
        'conflict',
        `${provider.spec.name} has given ${some.join(', ')}${more}: remove ${left.length === 1 ? 'it' : 'them'} first, with flynn resource remove ID`,
      );
    }
    try {
      // Whoever asks for something of it meanwhile has changed it.
      await resources.delete(providerType, id, { signal, expectRevision: provider.revision });
      return;
    } catch (error) {
      const isOvertaken = error instanceof FlynnError && error.code === 'conflict';
      if (!isOvertaken || attempt >= maxAttempts) throw error;
    }
  }
}
