/** Evaluations as operators see them: what was asked of the schedulers, by what, and how it ended. */
import { FlynnError } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import type { Evaluation } from '@flynn/scheduler/evaluation';
import { principalOf } from '../access/principal.ts';
import type { Principal } from '../access/principal.ts';
import { evaluations } from './api.ts';
import { valuesOf } from '../mirrors/cell-view.ts';
import { appIdOf } from '../processes/compile.ts';
import { findApp, noApp } from '../deps.ts';
import type { Deps } from '../deps.ts';
import { pageOf } from '../paging.ts';
import { appType } from '../resources.ts';
import type { AppResource } from '../resources.ts';

type Named = Evaluation & { appName?: string };

export function evaluationHandlers(deps: Deps): Handler[] {
  return [
    handle(evaluations.list, async (call) => {
      const { query, signal } = call;
      const principal = principalOf(call);
      const app = query.app === undefined ? undefined : await visibleApp(deps, principal, query.app, signal);
      const found = (await named(deps, principal, valuesOf(deps.cell.evaluations), signal))
        .filter((one) => query.state === undefined || one.state === query.state)
        .filter((one) => app === undefined || one.appName === app.spec.name)
        .sort((a, b) => b.createdAt - a.createdAt || (a.id < b.id ? 1 : -1));
      return pageOf(found, query, ({ id }) => id);
    }),
    handle(evaluations.get, async (call) => {
      const { params, signal } = call;
      const begun = valuesOf(deps.cell.evaluations).filter(({ id }) => id.startsWith(params.evaluation));
      const found = await named(deps, principalOf(call), begun, signal);
      const view = found.find(({ id }) => id === params.evaluation) ?? (found.length === 1 ? found[0] : undefined);
      if (view !== undefined) return view;
      const why =
        found.length > 1
          ? `${found.length} evaluations begin with ${params.evaluation}: name more of it`
          : `there is no evaluation ${params.evaluation}: those that ended are kept for an hour`;
      throw new FlynnError('not_found', `${why}; "flynn eval list" shows them`);
    }),
  ];
}

/** What somebody may not see is not there for them. */
async function visibleApp(deps: Deps, principal: Principal, name: string, signal: AbortSignal): Promise<AppResource> {
  const app = await findApp(deps, name, signal);
  if (principal.canSee({ id: app.id, isSystem: app.spec.isSystem })) return app;
  throw noApp(name);
}

/** A workload's id begins with its app's. Each caller sees those of apps they may see; an admin, of all. */
async function named(
  deps: Deps,
  principal: Principal,
  found: readonly Evaluation[],
  signal: AbortSignal,
): Promise<Named[]> {
  const apps = new Map((await deps.resources.list(appType, { signal })).map((app) => [app.id, app]));
  return found.flatMap((evaluation): Named[] => {
    const app = apps.get(appIdOf(evaluation.workloadId));
    if (app === undefined) return principal.isAdmin ? [evaluation] : [];
    const isShown = principal.canSee({ id: app.id, isSystem: app.spec.isSystem });
    return isShown ? [{ ...evaluation, appName: app.spec.name }] : [];
  });
}
