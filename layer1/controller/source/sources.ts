/** Repositories that apps follow, as people say and see it. */
import { hasCode, ifFound } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { resourceKey } from '@flynn/resource/keys';
import { compareOf } from '@flynn/resource/record';
import { principalOf } from '../access/principal.ts';
import type { Shown } from '../certificates/shown.ts';
import { refuseSource } from '../datastores/guards.ts';
import { findApp, forLiveApp } from '../deps.ts';
import type { Deps } from '../deps.ts';
import { insideNetworks } from '../hosts/inside-networks.ts';
import { iso } from '../jobs/views.ts';
import { chainOf } from '../operations/queue.ts';
import { findOperation } from '../operations/records.ts';
import { ownedBy } from '../resources.ts';
import type { AppResource } from '../resources.ts';
import { sources } from './api.ts';
import { findSource, wantLook } from './followed.ts';
import { viewHook } from './hook/handlers.ts';
import { hookType, isHookOf } from './hook/resource.ts';
import type { Source } from './model.ts';
import { sourceType } from './resource.ts';
import type { SourceResource } from './resource.ts';
import { checkOutside, hostOfSource } from './url.ts';

export function sourceHandlers(deps: Deps, certificates: () => Iterable<Shown>): Handler[] {
  const view = (source: SourceResource, signal: AbortSignal) => viewSource(deps, certificates, source, signal);
  return [
    handle(sources.get, async ({ params, signal }) => {
      const app = await findApp(deps, params.app, signal);
      return view(await findSource(deps, app, signal), signal);
    }),
    handle(sources.put, async (call) => {
      const { params, body, signal } = call;
      const { isAdmin } = principalOf(call);
      const host = hostOfSource(body.url);
      if (!isAdmin) await refuseInside(host, await insideNetworks(deps, signal), signal);
      const made = await forLiveApp(deps, params.app, signal, async (app) => {
        refuseSource(app);
        const before = await deps.resources.find(sourceType, app.id, { signal });
        const source = await setSource(deps, app, { ...body, isOpen: isAdmin }, signal);
        if (before !== undefined && before.spec.url !== source.spec.url) await forgetHeard(deps, app, signal);
        return source;
      });
      return view(made, signal);
    }),
    handle(sources.remove, async ({ params, signal }) => {
      const app = await findApp(deps, params.app, signal);
      await findSource(deps, app, signal);
      await removeSource(deps, app, signal);
    }),
    handle(sources.poll, async ({ params, query, signal }) => {
      const app = await findApp(deps, params.app, signal);
      await findSource(deps, app, signal);
      const wanted = await wantLook(deps, app.id, signal, { isAnew: query.again === 'true' });
      return view(wanted, signal);
    }),
  ];
}

/** A name that leads nowhere now may lead somewhere later: that is told when it is looked at. */
async function refuseInside(host: string, inside: readonly string[], signal: AbortSignal): Promise<void> {
  try {
    await checkOutside(host, inside, signal);
  } catch (error) {
    if (!hasCode(error, 'unavailable')) throw error;
  }
}

type Wanted = { url: string; branch: string; everyMs: number; isOpen: boolean };

async function setSource(deps: Deps, app: AppResource, wanted: Wanted, signal: AbortSignal): Promise<SourceResource> {
  const { resources } = deps;
  const spec = { appId: app.id, ...wanted };
  const also = () => ({ compare: [compareOf(app)] });
  if ((await resources.find(sourceType, app.id, { signal })) === undefined) {
    return resources.create(sourceType, { id: app.id, owner: ownedBy(app.id), spec }, { signal, also });
  }
  return resources.change(
    sourceType,
    app.id,
    ({ spec: before, status }) => {
      const isSame = before.url === spec.url && before.branch === spec.branch;
      // Of another branch nothing was taken yet; the ids of looks and pushes go on from where they are.
      const fresh = { ...status, commit: undefined, error: undefined, failures: 0, nextMs: 0 };
      return { spec, status: isSame ? { ...status, nextMs: 0 } : fresh };
    },
    { signal, also },
  );
}

/** What came in at its hook was of the repository of before. Broken off in between that is shown until something else comes in. */
async function forgetHeard({ resources }: Deps, { id }: AppResource, signal: AbortSignal): Promise<void> {
  await ifFound(resources.updateStatus(hookType, id, () => ({}), { signal }));
}

/** With its hook: no secret stays that is good for nothing. */
async function removeSource({ resources }: Deps, { id }: AppResource, signal: AbortSignal): Promise<void> {
  const hook = await resources.find(hookType, id, { signal });
  const key = resourceKey(hookType.name, id);
  const also = () => (hook === undefined ? { compare: [{ key, modRevision: 0 }] } : { then: [{ delete: key }] });
  await resources.delete(sourceType, id, { signal, also });
}

async function viewSource(
  deps: Deps,
  certificates: () => Iterable<Shown>,
  source: SourceResource,
  signal: AbortSignal,
): Promise<Source> {
  const { spec, status } = source;
  const { appId, url, branch, everyMs } = spec;
  const { commit, pollId, failures, error, polledMs, nextMs, isWanted = false } = status;
  const [push, hook] = await Promise.all([
    pushOf(deps, { spec, status }, signal),
    deps.resources.find(hookType, appId, { signal }),
  ]);
  return {
    appId,
    url,
    branch,
    everyMs,
    failures,
    ...(commit === undefined ? {} : { commit }),
    ...(pollId === undefined ? { nextAt: iso(isWanted ? deps.now() : Math.max(nextMs, deps.now())) } : { pollId }),
    ...(isWanted ? { isWanted } : {}),
    ...(polledMs === undefined ? {} : { polledAt: iso(polledMs) }),
    ...(error === undefined ? {} : { error }),
    ...(push === undefined ? {} : { push }),
    ...(hook !== undefined && isHookOf(hook, source) ? { hook: viewHook(deps, certificates, hook) } : {}),
  };
}

/** The first of the chain that has not completed, else its last. */
async function pushOf(
  { store }: Deps,
  { spec, status }: Pick<SourceResource, 'spec' | 'status'>,
  signal: AbortSignal,
): Promise<Source['push']> {
  if (status.pushId === undefined) return undefined;
  const ids = chainOf(spec.appId, status.pushId).map(({ id }) => id);
  const chain = await Promise.all(ids.map((id) => findOperation(store, id, { signal })));
  const found = chain.filter((operation) => operation !== undefined);
  const told = found.find(({ status: { state } }) => state !== 'complete') ?? found.at(-1);
  if (told === undefined) return undefined;
  const { state, error } = told.status;
  return { operationId: told.id, kind: told.spec.kind, state, ...(error === undefined ? {} : { error }) };
}
