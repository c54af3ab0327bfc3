import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { principalOf } from '../access/principal.ts';
import type { Principal } from '../access/principal.ts';
import { appNames, appsNamed } from '../apps/names.ts';
import { Decoded } from '../mirrors/decoded.ts';
import { findApp, noApp } from '../deps.ts';
import type { Deps } from '../deps.ts';
import { iso } from '../jobs/views.ts';
import { appType } from '../resources.ts';
import type { AppResource } from '../resources.ts';
import { figures } from './api.ts';
import type { FiguresHistory } from './history.ts';
import type { LatestFigures } from './model.ts';
import { stepMs } from './ring.ts';
import { figuresOf, latestOf } from './views.ts';

type FiguresDeps = Pick<Deps, 'resources' | 'store' | 'now'>;

export function figuresHandlers(deps: FiguresDeps, history: FiguresHistory): Handler[] {
  const decoded = new Decoded(appType);
  return [
    handle(figures.ofApp, async ({ params, query, signal }) => {
      const app = await findApp(deps, params.app, signal);
      return figuresOf(history, app.id, { since: query.since, nowMs: deps.now() });
    }),
    handle(figures.latest, async (call) => {
      const principal = principalOf(call);
      const { query, signal } = call;
      const seen =
        query.app === undefined
          ? await visibleApps(deps, decoded, principal, signal)
          : [await visibleApp(deps, query.app, principal, signal)];
      const { span } = history;
      return {
        ...(span === undefined ? {} : { at: iso(span.last * stepMs) }),
        apps: seen.map((app) => latestOfApp(history, app)),
      };
    }),
  ];
}

/** By name. Of the others nothing is read: it is asked again and again. */
async function visibleApps(
  deps: FiguresDeps,
  decoded: Parameters<typeof appsNamed>[1],
  principal: Principal,
  signal: AbortSignal,
): Promise<AppResource[]> {
  const names = (await appNames(deps, signal)).filter(({ id }) => principal.canSee({ id, isSystem: false }));
  const found = await appsNamed(deps, decoded, names, signal);
  return found.filter(({ id, spec }) => principal.canSee({ id, isSystem: spec.isSystem }));
}

async function visibleApp(
  deps: FiguresDeps,
  nameOrId: string,
  principal: Principal,
  signal: AbortSignal,
): Promise<AppResource> {
  const app = await findApp(deps, nameOrId, signal);
  if (!principal.canSee({ id: app.id, isSystem: app.spec.isSystem })) throw noApp(nameOrId);
  return app;
}

function latestOfApp(history: FiguresHistory, { id, spec }: AppResource): LatestFigures['apps'][number] {
  const { name, isSystem } = spec;
  return { appId: id, name, isSystem, isLeftOut: history.isLeftOut(id), ...latestOf(history, id) };
}
