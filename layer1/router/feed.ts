/** The routes as the controller tells them. */
import { routing } from '@flynn/controller/api';
import { routeSchema } from '@flynn/controller/model';
import type { Route } from '@flynn/controller/model';
import { FlynnError } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import type { Logger } from '@flynn/kit/log';
import { forever } from '@flynn/kit/tasks';
import { z } from 'zod';

const removalSchema = z.object({ id: z.string() });

export type FeedEvent = { event: string; data: unknown };

/**
 * Folds one connection's events into lists of all routes. A connection begins with every route there is, so what was
 * known before it stays in force until `current`, and is then replaced: whatever was missed meanwhile is made good.
 */
export async function* foldRoutes(events: AsyncIterable<FeedEvent>, log: Logger): AsyncGenerator<Route[]> {
  const routes = new Map<string, Route>();
  let isCurrent = false;
  for await (const { event, data } of events) {
    if (event === 'current') isCurrent = true;
    else if (event === 'set') {
      const parsed = routeSchema.safeParse(data);
      // A route this version cannot read must not cost all the others.
      if (!parsed.success)
        log.error({ data, problem: z.prettifyError(parsed.error) }, 'the controller sent a bad route');
      else routes.set(parsed.data.id, parsed.data);
    } else if (event === 'remove') routes.delete(removalSchema.parse(data).id);
    else continue;
    if (isCurrent) yield [...routes.values()];
  }
}

/**
 * Runs until the signal aborts. While the controller cannot be reached the last known routes stay as they are. Every new
 * connection asks for all routes instead of resuming: they are few, and a list cannot have gaps.
 */
export async function followRoutes(options: {
  controller: Pick<HttpClient, 'events'>;
  onRoutes: (routes: Route[]) => void;
  signal: AbortSignal;
  log: Logger;
}): Promise<void> {
  const { controller, onRoutes, log } = options;
  const step = async (signal: AbortSignal) => {
    for await (const routes of foldRoutes(controller.events(routing.events, {}, { signal }), log)) onRoutes(routes);
    if (!signal.aborted) throw new FlynnError('unavailable', 'the controller ended the stream of routes');
  };
  await forever('following the routes', step, { signal: options.signal, log, maxMs: 2_000 });
}
