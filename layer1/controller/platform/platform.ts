/** What concerns all of the platform: logs, the stream of changes, what a client has to know of the cluster. */
import { finished } from 'node:stream';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { routes as logRoutes } from '@flynn/log-aggregator/api';
import type { HttpClient } from '@flynn/kit/http-client';
import { eventView } from '../access/event-view.ts';
import { principalOf } from '../access/principal.ts';
import { platform } from './api.ts';
import { findApp, noApp } from '../deps.ts';
import type { Deps } from '../deps.ts';
import type { Shown } from '../certificates/shown.ts';
import { dashboardUrl } from './dashboard-url.ts';
import { Followers } from './followers.ts';
import { resumeAfter } from './event-stream.ts';
import { controllerEvents, parseTypes } from './events.ts';

/** `logAggregator` is the client of whichever instance discovery names. */
export function platformHandlers(
  deps: Deps,
  logAggregator: HttpClient,
  certificates: () => Iterable<Shown>,
): Handler[] {
  const followers = new Followers();
  return [
    handle(platform.log, async (call) => {
      const { params, query, signal } = call;
      const app = await findApp(deps, params.app, signal);
      const { isAdmin, kind, userId, name } = principalOf(call);
      const isFollowed = query.follow === true;
      const asked = { params: { app: app.id }, query: isFollowed && isAdmin ? { ...query, isForAdmin: true } : query };
      const leave = isFollowed && !isAdmin ? followers.enter(userId ?? `${kind} ${name}`) : undefined;
      const body = await logAggregator.stream(logRoutes.read, asked, { signal }).catch((error: unknown) => {
        leave?.();
        throw error;
      });
      if (leave !== undefined) finished(body, leave);
      return { body };
    }),
    handle(platform.events, async (call) => {
      const { query, headers, signal } = call;
      const types = parseTypes(query.types);
      const view = await eventView(deps, principalOf(call), signal);
      const app = query.app === undefined ? undefined : await findApp(deps, query.app, signal);
      if (app !== undefined && !view.canSee(app.id)) throw noApp(query.app ?? '');
      const after = await resumeAfter(deps.store, headers, signal);
      return controllerEvents(deps, { appId: app?.id, types, view }, { after, signal });
    }),
    handle(platform.dashboard, async ({ signal }) => ({ url: await dashboardUrl(deps, certificates, signal) })),
    handle(platform.cluster, async () => {
      const { name, domain, formerDomains, gitUrl, gitHostKey, httpPort, version, slugRunnerImage } = deps.settings;
      const { keepsRegistryLogins = true } = deps.settings;
      const known = gitHostKey === undefined ? {} : { gitHostKey };
      return {
        name,
        domain,
        formerDomains: [...formerDomains],
        gitUrl,
        ...known,
        httpPort,
        version,
        slugRunnerImage,
        keepsRegistryLogins,
        heedsBuildPlace: true,
      };
    }),
  ];
}
