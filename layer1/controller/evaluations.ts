/** Evaluations as operators see them: what was asked of the schedulers, by what, and how it ended. */
import { FlynnError } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import type { Evaluation } from '@flynn/scheduler/cell';
import { evaluations } from './api-hosts.ts';
import { valuesOf } from './cell-view.ts';
import { findApp } from './deps.ts';
import type { Deps } from './deps.ts';
import { appType } from './resources.ts';

type Named = Evaluation & { appName?: string };

export function evaluationHandlers(deps: Deps): Handler[] {
  return [
    handle(evaluations.list, async ({ query, signal }) => {
      const app = query.app === undefined ? undefined : (await findApp(deps, query.app, signal)).spec.name;
      return (await named(deps, valuesOf(deps.cell.evaluations), signal))
        .filter((one) => query.state === undefined || one.state === query.state)
        .filter((one) => app === undefined || one.appName === app)
        .sort((a, b) => b.createdAt - a.createdAt || (a.id < b.id ? 1 : -1));
    }),
    handle(evaluations.get, async ({ params, signal }) => {
      const found = valuesOf(deps.cell.evaluations).filter(({ id }) => id.startsWith(params.evaluation));
      const exact = found.find(({ id }) => id === params.evaluation) ?? (found.length === 1 ? found[0] : undefined);
      const [view] = exact === undefined ? [] : await named(deps, [exact], signal);
      if (view !== undefined) return view;
      const why =
        found.length > 1
          ? `${found.length} evaluations begin with ${params.evaluation}: name more of it`
          : `there is no evaluation ${params.evaluation}: those that ended are kept for an hour`;
      throw new FlynnError('not_found', `${why}; "flynn eval list" shows them`);
    }),
  ];
}

/** A workload's id begins with its app's. */
async function named(deps: Deps, found: readonly Evaluation[], signal: AbortSignal): Promise<Named[]> {
  const apps = await deps.resources.list(appType, { signal });
  return found.map((evaluation) => {
    const app = apps.find(({ id }) => evaluation.workloadId.startsWith(`${id}-`));
    return app === undefined ? evaluation : { ...evaluation, appName: app.spec.name };
  });
}
