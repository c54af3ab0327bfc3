import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { principalOf } from '../access/principal.ts';
import { findApp } from '../deps.ts';
import type { Deps } from '../deps.ts';
import { iso } from '../job-views.ts';
import { appType } from '../resources.ts';
import type { AppResource } from '../resources.ts';
import { figures } from './api.ts';
import type { FiguresHistory } from './history.ts';
import type { LatestFigures } from './model.ts';
import { stepMs } from './ring.ts';
import { figuresOf, latestOf } from './views.ts';

export function figuresHandlers(deps: Pick<Deps, 'resources' | 'now'>, history: FiguresHistory): Handler[] {
  return [
    handle(figures.ofApp, async ({ params, query, signal }) => {
      const app = await findApp(deps, params.app, signal);
      return figuresOf(history, app.id, { since: query.since, nowMs: deps.now() });
    }),
    handle(figures.latest, async (call) => {
      const principal = principalOf(call);
      const all = await deps.resources.list(appType, { signal: call.signal });
      const seen = all.filter(({ id, spec }) => principal.canSee({ id, isSystem: spec.isSystem }));
      const { span } = history;
      return {
        ...(span === undefined ? {} : { at: iso(span.last * stepMs) }),
        apps: seen.toSorted((a, b) => (a.spec.name < b.spec.name ? -1 : 1)).map((app) => latestOfApp(history, app)),
      };
    }),
  ];
}

function latestOfApp(history: FiguresHistory, { id, spec }: AppResource): LatestFigures['apps'][number] {
  const { name, isSystem } = spec;
  return { appId: id, name, isSystem, isLeftOut: history.isLeftOut(id), ...latestOf(history, id) };
}
