/** Datastores' histories, as they are looked at and set. The worker keeps them: see steps.ts. */
import { appliances } from '@flynn/appliances/appliances';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { changePlan, datastoreOf, planOf } from '../datastore-backups/handlers.ts';
import type { BackupPlan } from '../datastore-backups/types.ts';
import type { Deps } from '../deps.ts';
import type { AppResource } from '../resources.ts';
import { datastoreHistories as routes } from './api.ts';
import type { DatastoreHistory } from './model.ts';
import { withoutHistory } from './recovery.ts';
import { historyDays } from './subject.ts';
import { archiveType, historyType } from './types.ts';
import type { HistoryResource } from './types.ts';
import { viewHistory } from './view.ts';

export function datastoreHistoryHandlers(deps: Deps): Handler[] {
  return [
    handle(routes.get, async (call) => {
      const app = withHistory(await datastoreOf(deps, call, call.params.resource, 'see'));
      return view(deps, app, await planOf(deps, app, call.signal), call.signal);
    }),
    handle(routes.set, async (call) => {
      const { params, body, signal } = call;
      const app = withHistory(await datastoreOf(deps, call, params.resource));
      const plan = await changePlan(deps, app, signal, ({ spec, status }) => ({
        spec: { ...spec, historyDays: body.days },
        status,
      }));
      return view(deps, app, plan, signal);
    }),
    handle(routes.collect, async (call) => {
      const { params, signal } = call;
      const app = withHistory(await datastoreOf(deps, call, params.resource));
      const plan = await planOf(deps, app, signal);
      const hurried = ({ status }: HistoryResource) => ({ ...status, nextMs: Math.min(status.nextMs, deps.now()) });
      const isKept =
        historyDays(plan) > 0 && (await deps.resources.find(historyType, app.id, { signal })) !== undefined;
      if (isKept) await deps.resources.updateStatus(historyType, app.id, hurried, { signal });
      return view(deps, app, plan, signal);
    }),
  ];
}

function withHistory(app: AppResource): AppResource {
  if (appliances.get(app.spec.datastore?.appliance ?? '')?.history !== undefined) return app;
  throw withoutHistory(app);
}

async function view(
  { resources }: Deps,
  app: AppResource,
  plan: BackupPlan,
  signal: AbortSignal,
): Promise<DatastoreHistory> {
  const [history, archive] = await Promise.all([
    resources.find(historyType, app.id, { signal }),
    resources.find(archiveType, app.id, { signal }),
  ]);
  return viewHistory(
    { datastore: app.spec.name, days: historyDays(plan) },
    archive?.status ?? { bases: [], pieces: [] },
    history?.status ?? { run: 0, nextMs: 0, recent: [] },
  );
}
