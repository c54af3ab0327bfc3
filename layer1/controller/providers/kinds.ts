/** The kinds Provider and Resource. A provider's token, and what the variables of a resource hold, are in no object. */
import { KeyedMutex } from '@flynn/kit/queue';
import type { Mirror } from '@flynn/store/mirror';
import type { Controller } from '@flynn/resource/controller';
import { refusal } from '@flynn/resource/record';
import { keysOf, runReconciler } from '@flynn/resource/reconciler';
import { z } from 'zod';
import { hiddenValue } from '../access/redaction.ts';
import { appIdOf } from '../processes/compile.ts';
import type { Deps } from '../deps.ts';
import { differences } from '../generic/difference.ts';
import { defineKind } from '../generic/kind.ts';
import type { Applied, ApplyContext, ControllerContext, Wanted } from '../generic/kind.ts';
import { appType } from '../resources.ts';
import { putProvider, removeProvider } from './providers.ts';
import { stepResource } from './steps.ts';
import { providerType, resourceType } from './types.ts';
import type { ProvidedResource, ProviderResource } from './types.ts';
import { stateOf } from './views.ts';

const wantedSchema = z.strictObject({
  /** https://, or http:// to a name of the cluster. */
  url: z.string(),
  /** Left out, or as it is shown, it stays; null takes it away. */
  token: z.string().nullable().optional(),
});

export const providerKind = defineKind({
  type: providerType,
  summary: 'where resources for apps come from: flynn provider',
  columns: { URL: 'spec.url' },
  wanted: wantedSchema,
  // Without its token it is not the same provider elsewhere.
  isExported: false,
  async view(_deps, { spec: { url, token } }) {
    return { spec: { url, ...(token === undefined ? {} : { token: hiddenValue }) } };
  },
  apply: applyProvider,
  remove: removeProvider,
});

export const resourceKind = defineKind({
  type: resourceType,
  summary: 'what a provider gave to apps, like a database: flynn resource',
  columns: { PROVIDER: 'spec.provider', APPS: 'spec.apps', STATE: 'status.state' },
  isReadOnly: true,
  isRemovable: true,
  async view(_deps, resource, read) {
    const { spec, status } = resource;
    const provider = await read.find(providerType, spec.providerId);
    const apps = await Promise.all(spec.apps.map(({ appId }) => read.find(appType, appId)));
    const env = Object.fromEntries(Object.keys(status.env).map((name) => [name, hiddenValue]));
    const { externalId } = status;
    return {
      spec: {
        provider: provider?.spec.name ?? spec.providerId,
        config: spec.config,
        apps: spec.apps.map(({ appId }, index) => apps[index]?.spec.name ?? appId),
      },
      status: { state: stateOf(resource), env, ...(externalId === undefined ? {} : { externalId }) },
    };
  },
  controllers: [providing],
});

function providing({ deps, log }: ControllerContext): Controller {
  return {
    name: 'resources',
    placement: 'singleton',
    async run({ signal, epoch }) {
      await using all = await deps.resources.mirror(resourceType, { signal });
      // A datastore's primary that is another may have to be told who logs in.
      const primaries = keysOf(deps.cell.statuses, ({ goesLast, workloadId }) =>
        goesLast === true ? madeFor(appIdOf(workloadId), all) : [],
      );
      const shared = { turns: new KeyedMutex(), ...(epoch === undefined ? {} : { epoch }) };
      await runReconciler({
        name: 'resources',
        sources: [keysOf(all), primaries],
        concurrency: 8,
        reconcile: (id, { signal: run }) => stepResource(deps, id, { signal: run, ...shared }),
        log,
        signal,
      });
    },
  };
}

function* madeFor(appId: string, all: Mirror<ProvidedResource>): Generator<string> {
  for (const [, { value }] of all.snapshot.entries) if (value.status.externalId === appId) yield value.id;
}

async function applyProvider(
  deps: Deps,
  { name, owner, labels, revision, spec }: Wanted<z.output<typeof wantedSchema>>,
  { isDryRun, signal, current }: ApplyContext<ProviderResource>,
): Promise<Applied> {
  if (name === undefined) throw refusal('provider', [{ path: 'name', message: 'a provider has a name' }]);
  const what = `provider ${name}`;
  if (owner !== undefined) throw refusal(what, [{ path: 'owner', message: 'a provider belongs to nothing' }]);
  const isShown = spec.token === hiddenValue;
  if (isShown && current?.spec.token === undefined) {
    throw refusal(what, [{ path: 'token', message: 'this is how it is shown: give the token itself' }]);
  }
  const token = spec.token === undefined || isShown ? current?.spec.token : (spec.token ?? undefined);
  const next = { name: current?.spec.name ?? name, url: spec.url, ...(token === undefined ? {} : { token }) };
  const shown = (url: string, hasToken: boolean) => ({ url, ...(hasToken ? { token: hiddenValue } : {}) });
  const before =
    current === undefined
      ? {}
      : { labels: current.labels, spec: shown(current.spec.url, current.spec.token !== undefined) };
  const after = { labels: labels ?? current?.labels ?? {}, spec: shown(next.url, token !== undefined) };
  const changes = [...differences(before, after)];
  if (
    current !== undefined &&
    token !== undefined &&
    current.spec.token !== undefined &&
    token !== current.spec.token
  ) {
    changes.push({ path: 'spec.token', before: hiddenValue, after: '[hidden, changed]' });
  }
  // Whatever is wrong with it is told of a dry run too.
  deps.resources.draft(providerType, { spec: next });
  if (!isDryRun) await putProvider(deps, current, { spec: next, labels: after.labels, revision }, signal);
  return { name, isNew: current === undefined, changes };
}
