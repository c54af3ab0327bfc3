/** What an app's builds may take: kept in the app's metadata, within what the cluster says (`flynn runner env`). */
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { builds } from './api.ts';
import { appBuildLimits, buildLimitNames, buildMeta } from './limits.ts';
import type { AppBuildLimits } from './limits.ts';
import { findApp, findLiveApp } from '../deps.ts';
import type { Deps } from '../deps.ts';
import { findBuilder } from '../jobs/jobs.ts';
import { appType } from '../resources.ts';
import { buildEnvOf } from '../runner-env/handlers.ts';

type Meta = Readonly<Record<string, string>>;

export function buildHandlers(deps: Deps): Handler[] {
  return [
    handle(builds.limits, async ({ params, signal }) => {
      const app = await findApp(deps, params.app, signal);
      return (await judge(deps, signal))(app.spec.meta);
    }),
    handle(builds.setLimits, async ({ params, body, signal }) => {
      const { id } = await findLiveApp(deps, params.app, signal);
      const judged = await judge(deps, signal);
      const next = (meta: Meta): Record<string, string> => {
        const all: Record<string, string> = { ...meta };
        for (const name of buildLimitNames) {
          const wish = body[name];
          if (wish === null) delete all[buildMeta[name]];
          else if (wish !== undefined) all[buildMeta[name]] = wish;
        }
        // Refused before it is written, not when the next build begins.
        judged(all);
        return all;
      };
      const changed = await deps.resources.update(appType, id, ({ spec }) => ({ ...spec, meta: next(spec.meta) }), {
        signal,
      });
      return judged(changed.spec.meta);
    }),
  ];
}

async function judge(deps: Deps, signal: AbortSignal): Promise<(meta: Meta) => AppBuildLimits> {
  const { builder, process } = await findBuilder(deps, signal);
  // On runners with labels of their own it may be other than this.
  const env = { ...builder.release.env, ...(await buildEnvOf(deps, {}, signal)) };
  return (meta) => appBuildLimits(env, meta, process.memoryBytes);
}
